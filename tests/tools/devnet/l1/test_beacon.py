"""The Beacon API routes over blobs by slot."""

import asyncio
from collections.abc import Sequence
from typing import Any

import aiohttp
import pytest

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import Hash
from rollup_node.tools.devnet.l1.beacon import application
from rollup_node.tools.devnet.l1.sidecars import Blob
from rollup_node.tools.devnet.serving.jsonrpc_server import Listener

BLOBS = [(bytes([number]) * 32, Blob(bytes([number]) * 4, bytes([number]) * 48, b"p" * 48)) for number in (1, 2)]


class TwoBlobs:
    """Blobs in slot 5 alone, an empty block in slot 6."""

    genesis_time = 1_700_000_000
    slot_seconds = 2

    def blobs_at(self, slot: int) -> Sequence[tuple[Hash, Blob]] | None:
        return {5: BLOBS, 6: []}.get(slot)


def get(path: str) -> tuple[int, Any]:
    """Status and JSON of a GET request."""

    async def run() -> tuple[int, Any]:
        listener = Listener(application(TwoBlobs()), 0)
        await listener.start()
        try:
            async with aiohttp.ClientSession(listener.url) as session, session.get(path) as response:
                return response.status, await response.json()
        finally:
            await listener.stop()

    return asyncio.run(run())


def test_constants() -> None:
    assert get("/eth/v1/beacon/genesis")[1]["data"]["genesis_time"] == "1700000000"
    assert get("/eth/v1/config/spec")[1]["data"]["SECONDS_PER_SLOT"] == "2"
    assert get("/eth/v1/node/version")[0] == 200


def test_blobs_in_ssz() -> None:
    async def run() -> tuple[str, bytes]:
        listener = Listener(application(TwoBlobs()), 0)
        await listener.start()
        try:
            headers = {"Accept": "application/octet-stream;q=1.0,application/json;q=0.9"}
            session = aiohttp.ClientSession(listener.url, headers=headers)
            async with session, session.get("/eth/v1/beacon/blobs/5") as response:
                return response.content_type, await response.read()
        finally:
            await listener.stop()

    assert asyncio.run(run()) == ("application/octet-stream", b"\1\1\1\1\2\2\2\2")


def test_blobs_all_or_by_versioned_hash() -> None:
    assert get("/eth/v1/beacon/blobs/5")[1]["data"] == ["0x01010101", "0x02020202"]
    wanted = to_hex(BLOBS[1][0])
    assert get(f"/eth/v1/beacon/blobs/5?versioned_hashes={wanted}")[1]["data"] == ["0x02020202"]
    assert get("/eth/v1/beacon/blobs/6")[1]["data"] == []


def test_sidecars_all_or_by_index() -> None:
    assert [sidecar["index"] for sidecar in get("/eth/v1/beacon/blob_sidecars/5")[1]["data"]] == ["0", "1"]
    (sidecar,) = get("/eth/v1/beacon/blob_sidecars/5?indices=1")[1]["data"]
    assert sidecar == {
        "index": "1",
        "blob": "0x02020202",
        "kzg_commitment": to_hex(b"\x02" * 48),
        "kzg_proof": to_hex(b"p" * 48),
    }


def test_commitments_of_the_blinded_block() -> None:
    body = get("/eth/v1/beacon/blinded_blocks/5")[1]["data"]["message"]["body"]
    assert body["blob_kzg_commitments"] == [to_hex(b"\x01" * 48), to_hex(b"\x02" * 48)]


@pytest.mark.parametrize("route", ["blobs", "blob_sidecars", "blinded_blocks"])
def test_a_slot_without_a_block_is_not_found(route: str) -> None:
    assert get(f"/eth/v1/beacon/{route}/7") == (404, {"code": 404, "message": "block not found"})
    assert get(f"/eth/v1/beacon/{route}/head")[0] == 404
