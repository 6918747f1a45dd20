"""The Beacon API routes over blobs by slot."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import aiohttp
import orjson
import pytest

from rollup_node.stages.l1.light_client.network import parse_network
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import Hash
from rollup_node.tools.batcher.channels import encode_blob
from rollup_node.tools.batcher.driver import BlobTransaction, Fees, Key, blob_transaction
from rollup_node.tools.devnet.evm.forks import L1_FORKS
from rollup_node.tools.devnet.evm.transactions import InvalidTransaction
from rollup_node.tools.devnet.files import l1_genesis
from rollup_node.tools.devnet.l1.backend import L1Backend
from rollup_node.tools.devnet.l1.beacon import (
    CONSENSUS_FORKS,
    BeaconBlock,
    Blob,
    application,
    beacon_block,
    consensus_rules,
    read_pooled,
)
from tests.support.servers.http_listener import listening

BLOBS = [(bytes([number]) * 32, Blob(bytes([number]) * 4, bytes([number]) * 48, b"p" * 48)) for number in (1, 2)]

CHAIN = L1Backend(l1_genesis(1_700_000_000), 2)
EXECUTION = CHAIN.mine(1_700_000_002)
"""Block 1 of an L1."""


class TwoBlobs:
    """Blobs in slot 5 alone, an empty block in slot 6; `fork` is that of its execution layer."""

    network = CHAIN.network

    def __init__(self, fork: str) -> None:
        self._rules = CONSENSUS_FORKS[fork]

    def blobs_at(self, slot: int) -> Sequence[tuple[Hash, Blob]] | None:
        return {5: BLOBS, 6: []}.get(slot)

    def beacon_block(self, slot: int) -> BeaconBlock | None:
        blobs = self.blobs_at(slot)
        if blobs is None:
            return None
        return beacon_block(self._rules, slot, EXECUTION, [blob.commitment for _, blob in blobs], finalized=True)


Get = Callable[..., Awaitable[tuple[int, Any]]]


@pytest.fixture
async def get() -> AsyncIterator[Get]:
    """Yield a function that returns status and JSON, or bytes, of a GET request by the fork of the execution layer."""
    forks = ("prague", "osaka", "amsterdam")
    async with listening(*(application(TwoBlobs(fork)) for fork in forks)) as urls, aiohttp.ClientSession() as session:

        async def get(path: str, fork: str = "prague", **headers: str) -> tuple[int, Any]:
            async with session.get(urls[forks.index(fork)] + path, headers=headers) as response:
                is_json = response.content_type == "application/json"
                return response.status, await (response.json() if is_json else response.read())

        yield get


async def test_constants(get: Get) -> None:
    """They are what the file of a private network has."""
    genesis, spec = [(await get(f"/eth/v1/{path}"))[1]["data"] for path in ("beacon/genesis", "config/spec")]
    assert genesis["genesis_time"] == "1700000000" and spec["SECONDS_PER_SLOT"] == "2"
    assert parse_network(orjson.dumps(spec | genesis)) == CHAIN.network
    assert (await get("/eth/v1/node/version"))[0] == 200


SIDECARS = [
    {
        "index": str(index),
        "blob": to_hex(blob.content),
        "kzg_commitment": to_hex(blob.commitment),
        "kzg_proof": to_hex(blob.proof),
    }
    for index, (_, blob) in enumerate(BLOBS)
]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("blobs/5", ["0x01010101", "0x02020202"]),
        (f"blobs/5?versioned_hashes={to_hex(BLOBS[1][0])}", ["0x02020202"]),
        ("blobs/6", []),
        ("blob_sidecars/5", SIDECARS),
        ("blob_sidecars/5?indices=1", SIDECARS[1:]),
    ],
)
async def test_blobs_and_sidecars_of_a_slot(get: Get, path: str, expected: list[Any]) -> None:
    assert (await get(f"/eth/v1/beacon/{path}"))[1]["data"] == expected


async def test_blobs_in_ssz(get: Get) -> None:
    accepted = "application/octet-stream;q=1.0,application/json;q=0.9"
    assert await get("/eth/v1/beacon/blobs/5", Accept=accepted) == (200, b"\1\1\1\1\2\2\2\2")


@pytest.mark.parametrize("route", ["blinded_blocks", "blob_sidecars"])
async def test_routes_that_gloas_does_not_have(get: Get, route: str) -> None:
    path, error = f"/eth/v1/beacon/{route}/5", f"there are no {route.replace('_', ' ')} in gloas"
    assert await get(path, "amsterdam") == (400, {"code": 400, "message": error}) and (await get(path))[0] == 200
    assert (await get("/eth/v1/beacon/blobs/5", "amsterdam"))[1]["data"] == ["0x01010101", "0x02020202"]


@pytest.mark.parametrize(
    "route", ["v1/beacon/blobs", "v1/beacon/blob_sidecars", "v1/beacon/blinded_blocks", "v2/beacon/blocks"]
)
async def test_a_slot_without_a_block_is_not_found(get: Get, route: str) -> None:
    assert await get(f"/eth/{route}/7") == (404, {"code": 404, "message": "block not found"})
    assert (await get(f"/eth/{route}/head"))[0] == 404


KEY = Key(b"\x05" * 32)
CHAIN_ID = 900
FEES = Fees(tip=1, cap=2, blob_cap=3)
CONTENTS = [encode_blob(b"one"), encode_blob(b"two")]


@pytest.fixture(scope="module")
def built() -> BlobTransaction:
    return blob_transaction(KEY, CHAIN_ID, 0, b"\xaa" * 20, CONTENTS, 21_000, FEES)


def test_blobs_by_versioned_hash(built: BlobTransaction) -> None:
    transaction, blobs = read_pooled(built.pooled, CHAIN_ID)
    assert (transaction.hash, transaction.sender) == (built.hash, KEY.address)
    assert tuple(blobs) == built.versioned_hashes
    assert [blob.content for blob in blobs.values()] == CONTENTS


def test_invalid_sidecars(built: BlobTransaction) -> None:
    body, blobs, commitments, proofs = rlp.decode(built.pooled[1:])
    for parts, error in (
        ([body, blobs[:1], commitments, proofs], "number of blobs"),
        ([body, blobs, commitments[::-1], proofs], "commitments"),
        ([body, blobs, commitments, proofs[::-1]], "invalid proof"),
        ([body, blobs[::-1], commitments, proofs], "invalid proof"),
        ([body, blobs, commitments], "without a sidecar"),
        (body, "without a sidecar"),
    ):
        with pytest.raises(InvalidTransaction, match=error):
            read_pooled(b"\x03" + rlp.encode(parts), CHAIN_ID)
    with pytest.raises(InvalidTransaction, match="blob transaction"):
        read_pooled(b"\x03\xff", CHAIN_ID)


def test_they_activate_with_the_forks_of_the_execution_layer() -> None:
    rules = consensus_rules({"cancunTime": 0, "pragueTime": 0, "osakaTime": 5, "bpo1Time": 6, "amsterdamTime": 9})
    assert [rules.at(time).name for time in (4, 5, 6, 8, 9, 99)] == ["electra", *3 * ["fulu"], "gloas", "gloas"]
    assert [rules.at(time).has_bids for time in (8, 9)] == [False, True]
    assert consensus_rules({}).at(5).name == "bellatrix"
    assert CONSENSUS_FORKS.keys() <= {l1_fork.name for l1_fork in L1_FORKS}
