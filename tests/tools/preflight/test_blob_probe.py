"""The probe for the blobs of an L1 block."""

import asyncio
from typing import Any

import pytest

from rollup_node.node.checks.finding import Finding, FindingLevel
from rollup_node.node.setup.networks import find_network
from rollup_node.stages.blobs.beacon_api import RETENTION_SECONDS
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.process.client import BeaconEndpoints
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.types import BlobRef
from rollup_node.tools.preflight.blob_probe import SEARCHED, BlobBlock, find_blob_block, probe_blobs
from tests.support.servers.fake_beacon import GENESIS, SLOT, FakeBeacon, KnownBlob
from tests.support.servers.http_listener import json_rpc_app, listening

TIME = GENESIS + SLOT * 12
BLOB = KnownBlob(b"\x01" + bytes(31), bytes(131072), bytes(48))
BLOCK = BlobBlock(9, TIME, BlobRef(0, BLOB.hash))


def probe(
    beacon: FakeBeacon, block: BlobBlock | None = BLOCK, is_needed: bool = True, now: float = TIME + 60.0
) -> Finding:
    async def run() -> Finding:
        async with listening(beacon.app()) as (url,):
            config = BlobsConfig(url, find_network("op-sepolia").config, timeout=20.0)
            sources = BeaconEndpoints(config, Meter("test"))
            try:
                return await probe_blobs(sources, "blobs", block, is_needed, now)
            finally:
                await sources.close()

    return asyncio.run(run())


def test_blobs_that_are_there() -> None:
    result = probe(FakeBeacon([BLOB]))
    assert result.level is FindingLevel.OK and "slot 7 (L1 block 9, 1m0s old)" in result.text


@pytest.mark.parametrize(("age", "code"), [(60, Code.BLOB_NOT_FOUND), (RETENTION_SECONDS + 1, Code.BLOB_EXPIRED)])
def test_blobs_that_are_gone(age: int, code: Code) -> None:
    result = probe(FakeBeacon([]), now=TIME + age)
    assert (result.level, result.code) == (FindingLevel.ERROR, code)
    assert probe(FakeBeacon([]), is_needed=False, now=TIME + age).level is FindingLevel.WARNING
    if code is Code.BLOB_EXPIRED:
        assert "18d4h old" in result.text


def test_what_cannot_be_probed() -> None:
    beacon = FakeBeacon([BLOB])
    assert probe(beacon, None).level is FindingLevel.NOT_CHECKED
    before = probe(beacon, BLOCK._replace(time=GENESIS - 1))
    assert before.code is Code.BEACON_CHAIN
    beacon.status["genesis"] = 500
    assert probe(beacon).level is FindingLevel.NOT_CHECKED


def test_a_block_with_blobs_is_looked_for() -> None:
    asked: list[int] = []

    def block(name: str, full: bool) -> Any:
        number = int(name, 16)
        asked.append(number)
        if number > 100:
            return None
        hashes = ["0x01" + "00" * 31] if number == 95 else []
        transactions: list[Any] = [{}, {"blobVersionedHashes": hashes}] if full else []
        gas = hex(131072 if hashes else 0)
        time = hex(number * 12)
        return {"number": name, "hash": "0x" + "11" * 32, "timestamp": time, "blobGasUsed": gas} | {
            "transactions": transactions
        }

    async def find(first: int, step: int) -> BlobBlock | None:
        async with listening(json_rpc_app({"eth_getBlockByNumber": block})) as (url,):
            client = JsonRpcClient(url, timeout=20.0)
            try:
                return await find_blob_block(client, first, step)
            finally:
                await client.close()

    expected = BlobBlock(95, 95 * 12, BLOCK.blob)
    assert asyncio.run(find(100, -1)) == asyncio.run(find(90, 1)) == expected
    asked.clear()
    assert asyncio.run(find(50, -1)) is None and len(asked) == SEARCHED
    assert asyncio.run(find(5, -1)) is None
    assert asyncio.run(find(99, 1)) is None
