"""The stream of items, and its two readers against each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec.rlp_stream import BufferedReader, WholeReader, read_items
from rollup_node.stages.derivation.codec.zlib_stream import END
from rollup_node.stages.derivation.reasons.channels import StreamDamaged, StreamExhausted
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
    result = list(read_items(WholeReader(data), limit))
    end = result.pop()
    assert isinstance(end, Reason)
    assert str(end)
    return [item for item in result if isinstance(item, bytes)], type(end)


@pytest.mark.parametrize(
    ("data", "items"),
    [
        pytest.param(b"", [], id="nothing"),
        pytest.param(GOOD + GOOD, [b"abc", b"abc"], id="two"),
        pytest.param(b"\x05", [b"\x05"], id="a single byte is a string"),
    ],
)
def test_items(data: bytes, items: list[bytes]) -> None:
    assert _split(data) == (items, StreamExhausted)


def test_what_lies_beyond_the_limit_is_not_read() -> None:
    assert _split(GOOD + GOOD, limit=4) == ([b"abc"], StreamExhausted)


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
    result = list(read_items(BufferedReader(Pieces([data], "damaged")), 100_000))
    assert result[:-1] == items[:survive]
    end = result[-1]
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
