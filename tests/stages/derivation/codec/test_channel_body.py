"""The stream of items, and its two readers against each other. Channel bodies: any bytes end with a reason, and
real channels."""

import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec.batches import DecodedBatch, SingularBatch, SpanBatch
from rollup_node.stages.derivation.codec.channel_body import BufferedReader, WholeReader, read_batches, read_items
from rollup_node.stages.derivation.codec.frames import parse_frames
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.codec.zlib_stream import END
from rollup_node.stages.derivation.reasons.channels import StreamExhausted
from rollup_node.stages.derivation.reasons.reason import Reason
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
    assert (items, type(end)) == ([b"abc"], StreamExhausted)


OP_SEPOLIA = SpanRules(11155420, 1691802540, 2)
OP_MAINNET = SpanRules(10, 1686068903, 2)
SINGULAR = b"\x00" + wrap_list(encode_bytes(b"p" * 32) + b"\x05" + encode_bytes(b"e" * 32) + b"\x07" + b"\xc0")
SPAN_HEAD = b"\x01\x00\x05" + b"p" * 20 + b"o" * 20 + b"\x01\x00\x01\x00\x00" + b"r" * 64 + b"t" * 20
SPAN = SPAN_HEAD + b"\xc3\x01\x02\x80" + b"\x00\x00\x00"
BAD_TRANSACTION = SPAN_HEAD + b"\x03\xc3\x01\x02\x80" + b"\x00\x00"


def _read(body: bytes, brotli: bool = True) -> tuple[list[DecodedBatch], type[Reason]]:
    *result, end = read_batches(body, 10_000_000, brotli, OP_SEPOLIA)
    batches = [item for item in result if not isinstance(item, Reason)]
    assert isinstance(end, Reason) and len(batches) == len(result)
    assert str(end)
    return batches, type(end)


@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_end_with_a_reason(data: bytes, compress: bool) -> None:
    _read(zlib.compress(data) if compress else data)


@given(st.lists(st.sampled_from([SINGULAR, SPAN, BAD_TRANSACTION, b"\x01" + SPAN[2:]]), max_size=4), st.data())
def test_flipped_bits_end_with_a_reason(items: list[bytes], drawn: st.DataObject) -> None:
    stream = bytearray(b"".join(map(encode_bytes, items)))
    if stream:
        place = drawn.draw(st.integers(0, len(stream) * 8 - 1))
        stream[place >> 3] ^= 1 << (place & 7)
    _read(zlib.compress(bytes(stream)))


def _counts(body: bytes, rules: SpanRules) -> list[tuple[str, int, int]]:
    *batches, end = read_batches(body, 10_000_000, True, rules)
    assert isinstance(end, Reason) and type(end) is StreamExhausted
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
