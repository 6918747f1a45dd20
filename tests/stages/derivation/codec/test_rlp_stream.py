"""The stream of items by its conformance ids (derivation-rules 9.2), and the two readers side by side."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec.inflate import END
from rollup_node.stages.derivation.codec.rlp_stream import BufferedReader, WholeReader, read_items
from rollup_node.stages.derivation.reasons.reading import (
    StreamDamaged,
    StreamExhausted,
    StreamItemIsList,
    StreamLengthNotMinimal,
    StreamLimitExceeded,
    StreamTruncated,
)
from rollup_node.stages.derivation.reasons.reason import Reason

GOOD = b"\x83abc"


class Pieces:
    """A source of given pieces and a final status that comes with the last."""

    def __init__(self, pieces: list[bytes], status: str = END) -> None:
        self._pieces = [piece for piece in pieces if piece]
        self._status = status

    def read(self, size: int) -> tuple[bytes, str | None]:
        if not self._pieces:
            return b"", self._status
        part, rest = self._pieces[0][:size], self._pieces[0][size:]
        self._pieces[:1] = [rest] if rest else []
        return part, None if self._pieces else self._status


def _split(data: bytes, limit: int = 1000) -> tuple[list[bytes], type[Reason]]:
    found = list(read_items(WholeReader(data), limit))
    end = found.pop()
    assert isinstance(end, Reason)
    assert str(end)
    return [item for item in found if isinstance(item, bytes)], type(end)


@pytest.mark.parametrize(
    ("data", "count", "why"),
    [
        pytest.param(b"", 0, StreamExhausted, id="nothing"),
        pytest.param(GOOD + GOOD, 2, StreamExhausted, id="two"),
        pytest.param(b"\x05", 1, StreamExhausted, id="a_single_byte_is_a_string"),
        pytest.param(b"\xc0", 0, StreamItemIsList, id="rlp_list_item"),
        pytest.param(GOOD + b"\xc1\x80" + GOOD, 1, StreamItemIsList, id="rlp_good_list_good"),
        pytest.param(GOOD + b"\x81\x05" + GOOD, 1, StreamLengthNotMinimal, id="rlp_noncanon_81"),
        pytest.param(b"\xb8\x05hello", 0, StreamLengthNotMinimal, id="rlp_b8_short"),
        pytest.param(b"\xb9\x00\x64" + bytes(100), 0, StreamLengthNotMinimal, id="rlp_b9_leading_zero"),
        pytest.param(GOOD + b"\xb9", 1, StreamTruncated, id="rlp_trunc_header"),
        pytest.param(GOOD + b"\x83ab", 1, StreamTruncated, id="rlp_trunc_payload"),
        pytest.param(GOOD + b"\xbf" + b"\xff" * 8, 1, StreamLimitExceeded, id="rlp_huge_len"),
    ],
)
def test_items(data: bytes, count: int, why: type[Reason]) -> None:
    items, end = _split(data)
    assert (len(items), end) == (count, why)


@pytest.mark.parametrize(
    ("limit", "count", "why"),
    [
        pytest.param(8, 2, StreamExhausted, id="zip_limit_exact"),
        pytest.param(7, 1, StreamLimitExceeded, id="zip_limit_minus1"),
        pytest.param(4, 1, StreamExhausted, id="the_rest_is_not_looked_at"),
    ],
)
def test_limit(limit: int, count: int, why: type[Reason]) -> None:
    items, end = _split(GOOD + GOOD, limit)
    assert (len(items), end) == (count, why)


def test_zip_limit_in_header() -> None:
    assert _split(GOOD + b"\xb9\x01\x00" + bytes(256), 5) == ([b"abc"], StreamLimitExceeded)


@pytest.mark.parametrize(
    ("sizes", "survive"),
    [([100, 200], 2), ([8189], 0), ([4101], 1)],
    ids=["through the buffer", "read past the buffer", "its end through the buffer"],
)
def test_an_error_that_comes_with_the_last_piece(sizes: list[int], survive: int) -> None:
    items = [b"\xfe" * size for size in sizes]
    data = b"".join(
        (b"\xb8" + bytes((size,)) if size < 256 else b"\xb9" + size.to_bytes(2, "big")) + item
        for size, item in zip(sizes, items, strict=True)
    )
    found = list(read_items(BufferedReader(Pieces([data], "damaged")), 100_000))
    assert found[:-1] == items[:survive]
    end = found[-1]
    assert isinstance(end, Reason) and type(end) is StreamDamaged


@given(st.binary(max_size=300), st.integers(0, 300), st.lists(st.integers(1, 40), max_size=8))
def test_pieces_of_a_sound_stream_do_not_matter(data: bytes, limit: int, cuts: list[int]) -> None:
    pieces, rest = [], data
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    assert list(read_items(BufferedReader(Pieces([*pieces, rest])), limit)) == list(
        read_items(WholeReader(data), limit)
    )
