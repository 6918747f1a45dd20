"""The fuzz targets, one for each parser. A target accepts any bytes and raises only for a bug: a parser that raises
another error than its own, or two readings of the same bytes that differ."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from rollup_node.node.inspect.batch_summary import hashes_digest
from rollup_node.node.inspect.lazy_batches import lazy_batch
from rollup_node.stages.derivation.codec.batches import RejectedBatch, SpanBatch
from rollup_node.stages.derivation.codec.channel_body import decode_batch, read_batches
from rollup_node.stages.derivation.codec.frames import parse_frames, prune_frames
from rollup_node.stages.derivation.codec.span_batch import SpanBatchError, SpanRules, decode_span
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.blob_codec import BLOB_SIZE, MAX_DATA, BlobDataError, decode_blob
from rollup_node.stages.protocol.config import SystemConfig
from rollup_node.stages.protocol.deposits import (
    DepositFailure,
    decode_deposit,
    deposit_from_log,
    encode_deposit,
)
from rollup_node.stages.protocol.forks.rules import L1InfoFormat, L1Rules
from rollup_node.stages.protocol.l1_info import L1InfoError, encode_l1_info, parse_l1_info
from rollup_node.stages.protocol.system_config import apply_updates
from rollup_node.stages.protocol.types import Log
from rollup_node.tools.batcher.channels import Frame, batcher_data, encode_blob
from rollup_node.tools.fuzz import seeds

RULES = SpanRules(seeds.CHAIN_ID, seeds.GENESIS_TIME, seeds.BLOCK_TIME)
LIMIT = 1_000_000
MAX_BLOCKS = 100_000
"""Spans of more blocks are not iterated over, which would be slow."""


class FuzzTarget(NamedTuple):
    """The function under test, and the generator of its valid inputs."""

    run: Callable[[bytes], None]
    seed: Callable[[Random], bytes]


def frames(data: bytes) -> None:
    """Batcher data: parsed frames encode to the same bytes, and each is either kept or pruned for a reason."""
    found = parse_frames(data)
    if isinstance(found, Reason):
        assert str(found)
        return
    assert batcher_data([Frame(each.channel, each.number, each.data, each.is_last) for each in found]) == data
    kept, reasons = prune_frames(found)
    assert len(kept) + len(reasons) == len(found)


def channel(data: bytes) -> None:
    """A channel body under the rules of late and early forks: batches, then one reason why reading ended."""
    for limit, brotli in ((LIMIT, True), (LIMIT // 10, False)):
        outcomes = list(read_batches(data, limit, brotli, RULES))
        assert isinstance(outcomes[-1], Reason) and str(outcomes[-1])
        assert not any(isinstance(each, Reason) for each in outcomes[:-1])


def batch(data: bytes) -> None:
    """A batch: the deriver's reading and that of `decode`."""
    decoded, lazy = decode_batch(data, RULES), lazy_batch(data, RULES)
    if isinstance(decoded, Reason | RejectedBatch):
        assert lazy == decoded
        return
    assert not isinstance(lazy, Reason | RejectedBatch)
    listed = lazy.summary(None)
    assert (listed.transactions, listed.digest) == (len(decoded.transactions), hashes_digest(decoded.transactions))


def span(data: bytes) -> None:
    """A span batch without its type byte: its blocks together have all its transactions, in order."""
    try:
        found = decode_span(data, 0, RULES)
    except SpanBatchError as error:
        assert 0 <= error.offset <= len(data) and str(error)
        return
    if isinstance(found, SpanBatch) and found.block_count <= MAX_BLOCKS:
        walked = [block.transactions for block in found.blocks()]
        assert sum(map(len, walked)) == len(found.transactions)
        assert tuple(found.transactions) == tuple(raw for block in walked for raw in block)


def rlp_item(data: bytes) -> None:
    """RLP: what decodes is canonical."""
    try:
        found = rlp.decode(data)
    except rlp.RlpError:
        return
    assert rlp.encode(found) == data


def blob(data: bytes) -> None:
    """A blob that begins with these bytes and is otherwise zero."""
    whole = data[:BLOB_SIZE].ljust(BLOB_SIZE, b"\0")
    try:
        found = decode_blob(whole)
    except BlobDataError as error:
        assert error.rule in str(error)
        return
    assert len(found) <= MAX_DATA
    assert encode_blob(found)[1:] == whole[1:]


def l1_info(data: bytes) -> None:
    """The calldata of L1 attributes: what is parsed survives encoding; ignored padding may differ."""
    for layout in L1InfoFormat:
        try:
            found = parse_l1_info(data, layout)
        except L1InfoError:
            continue
        again = encode_l1_info(found, layout)
        assert parse_l1_info(again, layout) == found


def deposit_log(data: bytes) -> None:
    """A deposit log: what is parsed survives encoding as a deposit."""
    found = deposit_from_log(_log(data, 4), bytes(32))
    if isinstance(found, DepositFailure):
        assert found.text
        return
    assert decode_deposit(encode_deposit(found)) == found


def config_log(data: bytes) -> None:
    """A system config log: a skipped update changes nothing."""
    before = SystemConfig(bytes(20), bytes(32), bytes(32), 1)
    for rules in (L1Rules(), L1Rules(packed_fee_scalars=True)):
        after, skipped = apply_updates(before, [_log(data, 3)], rules)
        assert not skipped or after == before


def _log(data: bytes, topics: int) -> Log:
    """A log whose topics are the first `topics` words of the bytes, or as many as there are."""
    head, rest = data[: 32 * topics], data[32 * topics :]
    return Log(bytes(20), tuple(head[at : at + 32] for at in range(0, len(head) - 31, 32)), rest, 3)


def _raw_span(chance: Random) -> bytes:
    return seeds.span(chance)[1:]


def _blob(chance: Random) -> bytes:
    return encode_blob(seeds.item(chance)[:1000])[:2000]


TARGETS: dict[str, FuzzTarget] = {
    "frames": FuzzTarget(frames, seeds.item),
    "channel": FuzzTarget(channel, seeds.body),
    "batch": FuzzTarget(batch, seeds.batch),
    "span": FuzzTarget(span, _raw_span),
    "rlp": FuzzTarget(rlp_item, seeds.transaction),
    "blob": FuzzTarget(blob, _blob),
    "l1-info": FuzzTarget(l1_info, seeds.l1_info),
    "deposit-log": FuzzTarget(deposit_log, seeds.deposit_log),
    "config-log": FuzzTarget(config_log, seeds.config_log),
}
"""The targets by name."""
