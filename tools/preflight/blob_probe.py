"""Whether the sources of blobs have those of an L1 block, asked as the blobs process asks."""

from typing import NamedTuple

import msgspec

from rollup_node.node.checks.finding import Finding, error, not_checked, ok, warning
from rollup_node.stages.blobs.beacon_api import BeforeGenesisError, Failed, SourceFailure, classify
from rollup_node.stages.blobs.process.client import BeaconEndpoints, BlobsNotFoundError, SourcesFailedError
from rollup_node.stages.io.http.jsonrpc import EndpointError, JsonRpcClient
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.answer_limits import L1_BLOCK
from rollup_node.stages.protocol.foreign_json import MalformedJsonError, decode_json
from rollup_node.stages.protocol.hex_encoding import from_quantity, hash_from_hex
from rollup_node.stages.protocol.texts import duration
from rollup_node.stages.protocol.types import BlobRef
from rollup_node.tools.preflight.chain_checks import Block, read_block

SEARCHED = 16
"""L1 blocks among which one with blobs is looked for: most have some."""


class BlobBlock(NamedTuple):
    """An L1 block with its first blob."""

    number: int
    time: int
    blob: BlobRef


class _Transaction(msgspec.Struct):
    blobVersionedHashes: list[str] = msgspec.field(default_factory=list)


class _FullBlock(msgspec.Struct):
    transactions: list[_Transaction]


class _Answer(msgspec.Struct):
    result: _FullBlock


async def find_blob_block(client: JsonRpcClient, first: int, step: int) -> BlobBlock | None:
    """Return the first L1 block with blobs of SEARCHED ones from `first` on, upwards or downwards by `step`.

    Raises EndpointError, RpcFailure and HexError."""
    for number in range(first, max(first + SEARCHED * step, -1), step):
        block: Block | None = await read_block(client, hex(number))
        if block is None:
            return None
        if from_quantity(block.blobGasUsed):
            hashes = await _blob_hashes(client, number)
            if hashes:
                return BlobBlock(number, block.time, BlobRef(0, hash_from_hex(hashes[0])))
    return None


async def _blob_hashes(client: JsonRpcClient, number: int) -> list[str]:
    body = await client.call_raw("eth_getBlockByNumber", hex(number), True, limit=L1_BLOCK)
    try:
        full = decode_json(body, _Answer, L1_BLOCK.values).result
    except MalformedJsonError as failure:
        raise EndpointError(client.name, str(failure)) from None
    return [
        blobVersionedHash for transaction in full.transactions for blobVersionedHash in transaction.blobVersionedHashes
    ]


async def probe_blobs(
    sources: BeaconEndpoints, check: str, block: BlobBlock | None, is_needed: bool, now: float
) -> Finding:
    """Whether any source offers the first blob of a block; a failure is an error if derivation `is_needed` to have it.

    `now` in Unix seconds."""
    if block is None:
        return not_checked(check, f"none of {SEARCHED} L1 blocks there has blobs")
    age = now - block.time
    try:
        slot = await sources.clock.slot_at(block.time)
    except EndpointError as failure:
        return not_checked(check, f"no source says when slots begin: {failure}")
    except BeforeGenesisError as failure:
        return error(check, Code.BEACON_CHAIN, str(failure))
    where = f"slot {slot} (L1 block {block.number}, {duration(age)} old)"
    try:
        offer = await sources.fetch(slot, [block.blob])
    except (BlobsNotFoundError, SourcesFailedError) as failure:
        return _missing(check, where, failure.failures, age, is_needed)
    if not offer.blobs:
        none = SourceFailure(Failed.HAS_NONE, f"{offer.endpoint.name}: an answer without blobs")
        return _missing(check, where, (none,), age, is_needed)
    return ok(check, f"{offer.endpoint.name} has the blobs of {where}")


def _missing(check: str, where: str, failures: tuple[SourceFailure, ...], age: float, is_needed: bool) -> Finding:
    words = "; ".join(failure.text for failure in failures)
    make = error if is_needed else warning
    return make(check, classify(failures, age), f"no source has the blobs of {where}: {words}")
