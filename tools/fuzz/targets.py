"""One entry point for each parser. A target takes any bytes and raises only for a mistake of ours: a parser that raises
something else than its own error, or two readings of the same bytes that differ."""

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
"""Spans of more blocks, which are slow to walk through, are not."""


class Target(NamedTuple):
    """What is done with bytes, and where good ones come from."""

    run: Callable[[bytes], None]
    seed: Callable[[Random], bytes]


def frames(data: bytes) -> None:
    """A data item: what is read makes the same bytes again, and pruning keeps some of it in order."""
    found = parse_frames(data)
    if isinstance(found, Reason):
        assert str(found)
        return
    assert batcher_data([Frame(each.channel, each.number, each.data, each.is_last) for each in found]) == data
    kept, reasons = prune_frames(found)
    assert len(kept) + len(reasons) == len(found)


def channel(data: bytes) -> None:
    """A channel body, by the rules of early and late forks: batches, then one reason."""
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
    """A span batch without its type byte: its blocks take up its transactions."""
    try:
        found = decode_span(data, 0, RULES)
    except SpanBatchError as error:
        assert 0 <= error.offset <= len(data) and str(error)
        return
    if isinstance(found, SpanBatch) and found.block_count <= MAX_BLOCKS:
        walked = [block.transactions for block in found.blocks()]
        assert sum(map(len, walked)) == len(found.transactions)
        assert found.transactions == tuple(raw for block in walked for raw in block)


def rlp_item(data: bytes) -> None:
    """RLP: only the one canonical form is read."""
    try:
        found = rlp.decode(data)
    except rlp.RlpError:
        return
    assert rlp.encode(found) == data


def blob(data: bytes) -> None:
    """A blob, these bytes being the beginning of it."""
    whole = data[:BLOB_SIZE].ljust(BLOB_SIZE, b"\0")
    try:
        found = decode_blob(whole)
    except BlobDataError as error:
        assert error.rule in str(error)
        return
    assert len(found) <= MAX_DATA
    assert encode_blob(found)[1:] == whole[1:]


def l1_info(data: bytes) -> None:
    """The call data of L1 attributes: what is read survives being written, padding that is not looked at aside."""
    for layout in L1InfoFormat:
        try:
            found = parse_l1_info(data, layout)
        except L1InfoError:
            continue
        again = encode_l1_info(found, layout)
        assert parse_l1_info(again, layout) == found


def deposit_log(data: bytes) -> None:
    """The topics and data of a deposit log."""
    found = deposit_from_log(_log(data, 4), bytes(32))
    if isinstance(found, DepositFailure):
        assert found.text
        return
    assert decode_deposit(encode_deposit(found)) == found


def config_log(data: bytes) -> None:
    """The topics and data of a system config log: an update that is skipped changes nothing."""
    before = SystemConfig(bytes(20), bytes(32), bytes(32), 1)
    for rules in (L1Rules(), L1Rules(packed_fee_scalars=True)):
        after, skipped = apply_updates(before, [_log(data, 3)], rules)
        assert not skipped or after == before


def _log(data: bytes, topics: int) -> Log:
    """A log whose topics are the first words, fewer where the bytes end before."""
    head, rest = data[: 32 * topics], data[32 * topics :]
    return Log(bytes(20), tuple(head[at : at + 32] for at in range(0, len(head) - 31, 32)), rest, 3)


def _raw_span(chance: Random) -> bytes:
    return seeds.span(chance)[1:]


def _blob(chance: Random) -> bytes:
    return encode_blob(seeds.item(chance)[:1000])[:2000]


TARGETS: dict[str, Target] = {
    "frames": Target(frames, seeds.item),
    "channel": Target(channel, seeds.body),
    "batch": Target(batch, seeds.batch),
    "span": Target(span, _raw_span),
    "rlp": Target(rlp_item, seeds.transaction),
    "blob": Target(blob, _blob),
    "l1-info": Target(l1_info, seeds.l1_info),
    "deposit-log": Target(deposit_log, seeds.deposit_log),
    "config-log": Target(config_log, seeds.config_log),
}
"""The targets by name."""
