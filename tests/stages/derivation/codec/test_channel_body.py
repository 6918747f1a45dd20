"""The stream of items, its two readers against each other, and real channels."""

import zlib
from pathlib import Path
from random import Random

import brotli as google_brotli
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec import channel_body
from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.codec.brotli_stream import BrotliSource
from rollup_node.stages.derivation.codec.channel_body import (
    BufferedReader,
    StreamReader,
    WholeReader,
    open_body,
    read_batches,
    read_items,
)
from rollup_node.stages.derivation.codec.frames import parse_frames
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.codec.zlib_stream import SLACK, PieceSource, inflated_pieces
from rollup_node.stages.derivation.reasons.channels import StreamExhausted
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.protocol.rlp import encode_bytes

LIMIT = 100_000_000


def _body(items: list[bytes], kind: str, flushed: bool = False) -> bytes:
    stream = b"".join(map(encode_bytes, items))
    if kind == "brotli":
        return b"\1" + bytes(google_brotli.compress(stream, quality=3))
    compressor = zlib.compressobj(0 if kind == "stored" else 6)
    return compressor.compress(stream) + compressor.flush(zlib.Z_SYNC_FLUSH if flushed else zlib.Z_FINISH)


def _damaged(body: bytes, damage: str, drawn: st.DataObject) -> bytes:
    match damage:
        case "junk":
            return body + b"junk" * drawn.draw(st.sampled_from([1, 9000]))
        case "cut":
            return body[: drawn.draw(st.integers(2, len(body) - 1))]
        case "sum":
            return body[:-1] + bytes((body[-1] ^ 1,))
        case "flip":
            place = drawn.draw(st.integers(16, len(body) * 8 - 1))
            return body[: place >> 3] + bytes((body[place >> 3] ^ 1 << (place & 7),)) + body[(place >> 3) + 1 :]
    return body


def _outcomes(reader: StreamReader | Reason, limit: int) -> list[object]:
    if isinstance(reader, Reason):
        return [str(reader)]
    return [item if isinstance(item, bytes) else str(item) for item in read_items(reader, limit)]


@settings(max_examples=120)
@given(
    st.lists(st.sampled_from([1, 60, 300, 4093, 4101, 8190, 9000, 32_765, 130_000]), min_size=1, max_size=4),
    st.sampled_from(["brotli", "zlib", "stored"]),
    st.sampled_from(["whole", "flush", "junk", "cut", "sum", "flip"]),
    st.data(),
)
def test_however_a_stream_is_read_its_items_are_the_same(
    sizes: list[int], kind: str, damage: str, drawn: st.DataObject
) -> None:
    """As a whole, in pieces as a long one, and through the buffers of op-node; never more than was put in [Z9]."""
    chance = Random(7)
    items = [b"\xfe" + chance.randbytes(size - 1) for size in sizes] + [b"abc"] * 300
    body = _damaged(_body(items, kind, damage == "flush"), damage, drawn)
    limit = drawn.draw(st.sampled_from([LIMIT, sum(sizes), 65_536, 5000]))
    outcomes = _outcomes(open_body(body, limit, True), limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(channel_body, "MAX_WHOLE", 50_000)
        assert _outcomes(open_body(body, limit, True), limit) == outcomes
    source = BrotliSource(body[1:]) if kind == "brotli" else PieceSource(inflated_pieces(body, 2))
    result = [item for item in outcomes if isinstance(item, bytes)]
    assert [item for item in _outcomes(BufferedReader(source), limit) if isinstance(item, bytes)] == result
    if damage != "flip" and (kind, damage) != ("brotli", "sum"):
        assert result == items[: len(result)]


@pytest.mark.condition("C9")
def test_long_outputs_are_not_held_in_memory() -> None:
    long, short = [bytes(channel_body.MAX_WHOLE + SLACK)], [bytes(1000)]
    for kind in ("brotli", "zlib"):
        assert isinstance(open_body(_body(long, kind), LIMIT, True), BufferedReader)
        assert isinstance(open_body(_body(long, kind), 10_000_000, True), WholeReader)
        assert isinstance(open_body(_body(short, kind), LIMIT, True), WholeReader)


OP_SEPOLIA = SpanRules(11155420, 1691802540, 2)
OP_MAINNET = SpanRules(10, 1686068903, 2)


@pytest.mark.parametrize(
    ("name", "rules", "spans", "batches", "transactions"),
    [
        ("hildr_batches_0", OP_SEPOLIA, [84], 1, 9),
        *((f"hildr_batches_{number}", OP_SEPOLIA, [], 1, 20) for number in (1, 2, 3, 4)),
        ("kona_batch", OP_MAINNET, [143], 1, 1766),
        ("magi_batcher_transactions", OP_SEPOLIA, [], 6, 14),
    ],
)
def test_recorded_channels(
    shared_data: Path, name: str, rules: SpanRules, spans: list[int], batches: int, transactions: int
) -> None:
    """A span in a stream that is never closed, a singular batch in four compressions, OP Mainnet, frames of Goerli."""
    body = (shared_data / "channels" / f"{name}.bin").read_bytes()
    if name.startswith("magi"):
        frames = parse_frames(body)
        assert isinstance(frames, list)
        body = b"".join(frame.data for frame in frames)
    *read, end = read_batches(body, 10_000_000, True, rules)
    assert isinstance(end, Reason) and end.kind is StreamExhausted
    known = [batch for batch in read if isinstance(batch, SpanBatch | SingularBatch)]
    assert [batch.block_count for batch in known if isinstance(batch, SpanBatch)] == spans
    assert (len(known), sum(len(batch.transactions) for batch in known)) == (batches, transactions)
