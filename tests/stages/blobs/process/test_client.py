"""Beacon endpoints: addresses, bounds and texts."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.process import client
from rollup_node.stages.blobs.process.client import BeaconEndpoints, BlobsNotFoundError
from rollup_node.stages.io.jsonrpc import EndpointError
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.protocol.config import Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.types import BlobRef, BlockId
from rollup_node.tools.devnet.serving.jsonrpc_server import Listener

NOWHERE = BlockId(0, bytes(32))
ROLLUP = RollupConfig(
    genesis=Genesis(NOWHERE, NOWHERE, 0, SystemConfig(bytes(20), bytes(32), bytes(32), 1)),
    block_time=2,
    max_sequencer_drift=600,
    seq_window_size=3600,
    channel_timeout=300,
    l1_chain_id=1,
    l2_chain_id=10,
    fork_times={},
    batch_inbox=bytes(20),
    deposit_contract=bytes(20),
    l1_system_config=bytes(20),
)
WANTED = [BlobRef(0, b"\x01" * 32), BlobRef(2, b"\x02" * 32)]


def against(handler: Any, use: Any, path: str = "", **options: Any) -> Any:
    async def run() -> Any:
        app = web.Application()
        app.router.add_get("/{path:.*}", handler)
        listener = Listener(app, 0)
        await listener.start()
        endpoints = BeaconEndpoints(BlobsConfig(listener.url + path, ROLLUP, **options), Meter("blobs"))
        try:
            return await use(endpoints)
        finally:
            await endpoints.close()
            await listener.stop()

    return asyncio.run(run())


def test_paths_and_keys_of_the_address_are_kept() -> None:
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.path_qs)
        return web.Response(status=404)

    async def use(endpoints: BeaconEndpoints) -> None:
        with pytest.raises(BlobsNotFoundError):
            await endpoints.fetch(7, WANTED)

    against(handler, use, path="/base/?key=abc")
    first, second = "0x" + "01" * 32, "0x" + "02" * 32
    assert seen == [
        f"/base/eth/v1/beacon/blobs/7?key=abc&versioned_hashes={first}&versioned_hashes={second}",
        "/base/eth/v1/beacon/blob_sidecars/7?key=abc&indices=0&indices=2",
    ]


def test_answers_are_bounded_and_errors_name_the_endpoint_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_BODY", 1000)

    async def handler(request: web.Request) -> web.Response:
        return web.Response(body=b" " * 5000)

    async def use(endpoints: BeaconEndpoints) -> None:
        with pytest.raises(EndpointError, match="longer than 1000 bytes") as caught:
            await endpoints.fetch(7, WANTED)
        assert "abc" not in str(caught.value)

    against(handler, use, path="/?key=abc")


def test_a_slow_answer_times_out() -> None:
    async def handler(request: web.Request) -> web.Response:
        await asyncio.sleep(5)
        return web.Response()

    async def use(endpoints: BeaconEndpoints) -> None:
        with pytest.raises(EndpointError, match=r"no answer within 0\.05 s"):
            await endpoints.slot_at(100)

    against(handler, use, timeout=0.05)


def test_a_refused_connection_is_told_without_credentials() -> None:
    async def run() -> None:
        endpoints = BeaconEndpoints(BlobsConfig("http://user:pw@127.0.0.1:1/key", ROLLUP), Meter("blobs"))
        with pytest.raises(EndpointError, match=r"127\.0\.0\.1:1: cannot connect \(Connection refused\)") as caught:
            await endpoints.slot_at(100)
        assert "pw" not in str(caught.value)
        assert "key" not in str(caught.value)
        await endpoints.close()

    asyncio.run(run())


def test_html_is_no_answer() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(text="<html>")

    async def use(endpoints: BeaconEndpoints) -> None:
        with pytest.raises(EndpointError, match="the answer is not JSON"):
            await endpoints.fetch(7, WANTED)

    against(handler, use)


def test_genesis_is_asked_for_once() -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response({"data": {"genesis_time": "10", "SECONDS_PER_SLOT": "2"}})

    async def use(endpoints: BeaconEndpoints) -> list[int]:
        return [await endpoints.slot_at(each) for each in (10, 13, 20)]

    assert against(handler, use) == [0, 1, 5]
    assert asked == ["/eth/v1/beacon/genesis", "/eth/v1/config/spec"]
    asked.clear()
    assert against(handler, use, slot_seconds=5) == [0, 0, 2]
    assert asked == ["/eth/v1/beacon/genesis"]
