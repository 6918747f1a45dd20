"""L1 endpoints: what counts as absent, receipts one by one, failover and rests."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest
from aiohttp import web

from rollup_node.stages.io.jsonrpc import EndpointError, RpcFailure
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.process.client import L1Endpoints
from rollup_node.stages.protocol.config import Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.types import BlockId
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.serving.jsonrpc_server import JsonRpc, Listener, application

Methods = dict[str, Callable[..., Any]]
NOWHERE = BlockId(0, bytes(32))
ROLLUP = RollupConfig(
    genesis=Genesis(NOWHERE, NOWHERE, 0, SystemConfig(bytes(20), bytes(32), bytes(32), 1)),
    block_time=2,
    max_sequencer_drift=600,
    seq_window_size=3600,
    channel_timeout=300,
    l1_chain_id=5,
    l2_chain_id=10,
    fork_times={},
    batch_inbox=bytes(20),
    deposit_contract=bytes(20),
    l1_system_config=bytes(20),
)
HASHES = [bytes([n]) * 32 for n in range(1, 6)]


def against(servers: list[Methods], use: Callable[[L1Endpoints], Awaitable[Any]], **options: Any) -> Any:
    async def run() -> Any:
        listeners = [Listener(application(JsonRpc({"eth_chainId": lambda: "0x5", **each})), 0) for each in servers]
        for listener in listeners:
            await listener.start()
        urls = tuple(listener.url for listener in listeners)
        endpoints = L1Endpoints(L1Config(urls, ROLLUP, timeout=2.0, **options), Meter("l1"))
        try:
            return await use(endpoints)
        finally:
            await endpoints.close()
            for listener in listeners:
                await listener.stop()

    return asyncio.run(run())


def test_absent_blocks_are_none_however_they_are_told() -> None:
    def by_number(number: str, full: bool) -> Any:
        if number == "0x1":
            return None
        raise JsonRpcError(-32000, "header not found" if number in ("0x2", "finalized") else "boom")

    async def use(endpoints: L1Endpoints) -> None:
        endpoint = endpoints.pick()
        assert await endpoint.block_body(1) is None
        assert await endpoint.block_body(2) is None
        assert await endpoint.block_json("finalized") is None
        with pytest.raises(RpcFailure, match="boom"):
            await endpoint.block_body(3)

    against([{"eth_getBlockByNumber": by_number}], use)


def test_receipts_one_by_one_keep_what_came_and_ask_for_the_rest() -> None:
    asked: list[str] = []

    def receipt(transaction: str) -> Any:
        asked.append(transaction)
        return {"of": transaction} if asked.count(transaction) > 1 or transaction.startswith("0x01") else None

    async def use(endpoints: L1Endpoints) -> bytes | None:
        return await endpoints.pick().receipts_body(bytes(32), HASHES)

    body = against([{"eth_getTransactionReceipt": receipt}], use, rpc_kind="basic", max_batch=2)
    assert orjson.loads(body)["result"] == [{"of": "0x" + each.hex()} for each in HASHES]
    assert len(asked) == 2 * len(HASHES) - 1


def test_receipts_that_stay_away_are_none_and_errors_are_errors() -> None:
    async def use(endpoints: L1Endpoints) -> bytes | None:
        return await endpoints.pick().receipts_body(bytes(32), HASHES)

    assert against([{"eth_getTransactionReceipt": lambda each: None}], use, rpc_kind="basic") is None
    assert against([{"eth_getBlockReceipts": lambda each: None}], use) is None

    def fails(each: str) -> Any:
        raise JsonRpcError(-32005, "limit exceeded")

    for method, kind in (("eth_getTransactionReceipt", "basic"), ("eth_getBlockReceipts", "standard")):
        with pytest.raises(RpcFailure, match="limit exceeded"):
            against([{method: fails}], use, rpc_kind=kind)


def test_a_method_that_goes_missing_gives_way_to_the_next() -> None:
    asked: list[str] = []

    def whole(block_hash: str) -> Any:
        asked.append("whole")
        raise JsonRpcError(-32601, "the method does not exist")

    def single(transaction: str) -> Any:
        asked.append("single")
        return {}

    async def use(endpoints: L1Endpoints) -> None:
        for _ in range(2):
            assert await endpoints.pick().receipts_body(bytes(32), HASHES[:1]) is not None

    against([{"eth_getBlockReceipts": whole, "eth_getTransactionReceipt": single}], use)
    assert asked == ["whole", "single", "single"]


def test_the_chain_is_checked_again_after_a_failure() -> None:
    chains = ["0x5", "0x6", "0x5"]

    async def use(endpoints: L1Endpoints) -> None:
        endpoint = endpoints.pick()
        assert await endpoint.block_json("latest") is None
        endpoints.failed(endpoint, EndpointError("x", "gone"))
        with pytest.raises(EndpointError, match="is on L1 chain 6, but the rollup is on 5"):
            await endpoint.block_json("latest")
        assert await endpoint.block_json("latest") is None
        assert chains == []

    served: Methods = {"eth_chainId": lambda: chains.pop(0), "eth_getBlockByNumber": lambda *_: None}
    against([served], use)


def test_the_endpoint_in_use_changes_when_it_fails_and_not_before() -> None:
    async def use(endpoints: L1Endpoints) -> None:
        first, second, third = endpoints.all
        assert endpoints.pick() is endpoints.pick() is first
        endpoints.failed(third, EndpointError("x", "gone"))
        assert endpoints.pick() is first
        endpoints.failed(first, EndpointError("x", "gone"))
        assert endpoints.pick() is second
        endpoints.failed(second, EndpointError("x", "busy", 429, retry_after=30.0))
        assert endpoints.pick() is third
        endpoints.failed(third, EndpointError("x", "busy", 429, retry_after=30.0))
        assert endpoints.pick() is first
        endpoints.failed(first, EndpointError("x", "busy", 429, retry_after=3000.0))
        with pytest.raises(EndpointError, match=r"asked to be left alone for (30|60) s more"):
            endpoints.pick()

    against([{}, {}, {}], use)


def test_the_pause_that_an_overloaded_server_asks_for_is_kept() -> None:
    async def run() -> None:
        async def busy(request: web.Request) -> web.Response:
            return web.Response(status=429, headers={"Retry-After": "20"})

        app = web.Application()
        app.router.add_post("/", busy)
        listener = Listener(app, 0)
        await listener.start()
        endpoints = L1Endpoints(L1Config((listener.url,), ROLLUP), Meter("l1"))
        endpoint = endpoints.pick()
        with pytest.raises(EndpointError, match="HTTP status 429") as caught:
            await endpoint.block_json("latest")
        endpoints.failed(endpoint, caught.value)
        with pytest.raises(EndpointError, match="left alone"):
            endpoints.pick()
        await endpoints.close()
        await listener.stop()

    asyncio.run(run())
