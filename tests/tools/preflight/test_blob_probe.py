"""The probe for the blobs of an L1 block."""

from typing import Any

import pytest

from rollup_node.node.checks.finding import Finding, FindingLevel
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


async def probe(
    beacon: FakeBeacon, block: BlobBlock | None = BLOCK, is_needed: bool = True, now: float = TIME + 60.0
) -> Finding:
    async with listening(beacon.app()) as (url,):
        config = BlobsConfig(url, timeout=20.0)
        sources = BeaconEndpoints(config, Meter("test"))
        try:
            return await probe_blobs(sources, "blobs", block, is_needed, now)
        finally:
            await sources.close()


async def test_blobs_that_are_there() -> None:
    result = await probe(FakeBeacon([BLOB]))
    assert result.level is FindingLevel.OK and "slot 7 (L1 block 9, 1m0s old)" in result.text


@pytest.mark.parametrize(
    ("age", "code", "text"),
    [(60, Code.BLOB_NOT_FOUND, "1m0s old"), (RETENTION_SECONDS + 1, Code.BLOB_EXPIRED, "18d4h old")],
)
async def test_blobs_that_are_gone(age: int, code: Code, text: str) -> None:
    result = await probe(FakeBeacon([]), now=TIME + age)
    assert (result.level, result.code) == (FindingLevel.ERROR, code) and text in result.text
    assert (await probe(FakeBeacon([]), is_needed=False, now=TIME + age)).level is FindingLevel.WARNING


async def test_what_cannot_be_probed() -> None:
    beacon = FakeBeacon([BLOB])
    assert (await probe(beacon, None)).level is FindingLevel.NOT_CHECKED
    assert (await probe(beacon, BLOCK._replace(time=GENESIS - 1))).code is Code.BEACON_CHAIN
    beacon.status["genesis"] = 500
    assert (await probe(beacon)).level is FindingLevel.NOT_CHECKED


async def test_a_block_with_blobs_is_looked_for() -> None:
    asked: list[int] = []

    def block(name: str, full: bool) -> Any:
        number = int(name, 16)
        asked.append(number)
        if number > 100:
            return None
        hashes = ["0x01" + "00" * 31] if number == 95 else []
        transactions: list[Any] = [{}, {"blobVersionedHashes": hashes}] if full else []
        values = {"timestamp": hex(number * 12), "blobGasUsed": hex(131072 if hashes else 0)}
        return {"number": name, "hash": "0x" + "11" * 32, "transactions": transactions, **values}

    async with listening(json_rpc_app({"eth_getBlockByNumber": block})) as (url,):
        client = JsonRpcClient(url, timeout=20.0)
        expected = BlobBlock(95, 95 * 12, BLOCK.blob)
        assert await find_blob_block(client, 100, -1) == await find_blob_block(client, 90, 1) == expected
        asked.clear()
        assert await find_blob_block(client, 50, -1) is None and len(asked) == SEARCHED
        assert await find_blob_block(client, 5, -1) is None
        assert await find_blob_block(client, 99, 1) is None
        await client.close()
