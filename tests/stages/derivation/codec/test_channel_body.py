"""The stream of items, and its two readers against each other. Channel bodies: any bytes end with a reason, and
real channels."""

import zlib
from pathlib import Path
from random import Random

import brotli as google_brotli
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec import channel_body
from rollup_node.stages.derivation.codec.batches import DecodedBatch, SingularBatch, SpanBatch
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
from rollup_node.stages.derivation.codec.zlib_stream import END, SLACK, PieceSource, inflated_pieces
from rollup_node.stages.derivation.reasons.channels import StreamExhausted
from rollup_node.stages.derivation.reasons.reason import AnyKind, Reason
from rollup_node.stages.protocol.rlp import encode_bytes, wrap_list


class Pieces:
    """A source of sound pieces, whose end comes with the last."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = [piece for piece in pieces if piece]

    def read(self, size: int) -> tuple[bytes, str | None]:
        if not self._pieces:
            return b"", END
        part, rest = self._pieces[0][:size], self._pieces[0][size:]
        self._pieces[:1] = [rest] if rest else []
        return part, None if self._pieces else END


@settings(max_examples=60)
@given(st.binary(max_size=300), st.integers(0, 300), st.lists(st.integers(1, 40), max_size=8))
def test_pieces_of_a_sound_stream_do_not_matter(data: bytes, limit: int, cuts: list[int]) -> None:
    pieces, rest = [], data
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    assert list(read_items(BufferedReader(Pieces([*pieces, rest])), limit)) == list(
        read_items(WholeReader(data), limit)
    )


def test_what_lies_beyond_the_limit_is_not_read() -> None:
    *items, end = read_items(WholeReader(b"\x83abc" * 2), 4)
    assert (items, end) == ([b"abc"], StreamExhausted())


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
SINGULAR = b"\x00" + wrap_list(encode_bytes(b"p" * 32) + b"\x05" + encode_bytes(b"e" * 32) + b"\x07" + b"\xc0")
SPAN_HEAD = b"\x01\x00\x05" + b"p" * 20 + b"o" * 20 + b"\x01\x00\x01\x00\x00" + b"r" * 64 + b"t" * 20
SPAN = SPAN_HEAD + b"\xc3\x01\x02\x80" + b"\x00\x00\x00"
BAD_TRANSACTION = SPAN_HEAD + b"\x03\xc3\x01\x02\x80" + b"\x00\x00"


def _read(body: bytes, brotli: bool = True) -> tuple[list[DecodedBatch], AnyKind]:
    *result, end = read_batches(body, 10_000_000, brotli, OP_SEPOLIA)
    batches = [item for item in result if not isinstance(item, Reason)]
    assert isinstance(end, Reason) and len(batches) == len(result)
    assert str(end)
    return batches, end.kind


@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_end_with_a_reason(data: bytes, compress: bool) -> None:
    _read(zlib.compress(data) if compress else data)


@settings(max_examples=60)
@given(st.lists(st.sampled_from([SINGULAR, SPAN, BAD_TRANSACTION, b"\x01" + SPAN[2:]]), max_size=4), st.data())
def test_flipped_bits_end_with_a_reason(items: list[bytes], drawn: st.DataObject) -> None:
    stream = bytearray(b"".join(map(encode_bytes, items)))
    if stream:
        place = drawn.draw(st.integers(0, len(stream) * 8 - 1))
        stream[place >> 3] ^= 1 << (place & 7)
    _read(zlib.compress(bytes(stream)))


def _counts(body: bytes, rules: SpanRules) -> list[tuple[str, int, int]]:
    *batches, end = read_batches(body, 10_000_000, True, rules)
    assert isinstance(end, Reason) and end.kind is StreamExhausted
    return [
        ("span", batch.block_count, len(batch.transactions))
        if isinstance(batch, SpanBatch)
        else ("singular", 1, len(batch.transactions))
        for batch in batches
        if isinstance(batch, SpanBatch | SingularBatch)
    ]


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_the_same_singular_batch_in_four_compressions(shared_data: Path, number: int) -> None:
    folder = shared_data / "channels"
    body = (folder / f"hildr_batches_{number}.bin").read_bytes()
    assert _counts(body, OP_SEPOLIA) == [("singular", 1, 20)]
    first = (folder / "hildr_batches_1.bin").read_bytes()
    assert list(read_batches(body, 10_000_000, True, OP_SEPOLIA)) == list(
        read_batches(first, 10_000_000, True, OP_SEPOLIA)
    )


def test_a_span_in_a_stream_that_is_never_closed(shared_data: Path) -> None:
    body = (shared_data / "channels" / "hildr_batches_0.bin").read_bytes()
    with pytest.raises(zlib.error):
        zlib.decompress(body)
    assert _counts(body, OP_SEPOLIA) == [("span", 84, 9)]


def test_an_op_mainnet_channel(shared_data: Path) -> None:
    body = (shared_data / "channels" / "kona_batch.bin").read_bytes()
    assert _counts(body, OP_MAINNET) == [("span", 143, 1766)]


def test_six_singular_batches_of_goerli(shared_data: Path) -> None:
    data = (shared_data / "channels" / "magi_batcher_transactions.bin").read_bytes()
    frames = parse_frames(data)
    assert isinstance(frames, list)
    counts = _counts(b"".join(frame.data for frame in frames), OP_SEPOLIA)
    assert len(counts) == 6
    assert sum(transactions for _, _, transactions in counts) == 14
