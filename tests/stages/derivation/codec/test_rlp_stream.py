"""The stream of items, and its two readers against each other."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec.rlp_stream import BufferedReader, WholeReader, read_items
from rollup_node.stages.derivation.codec.zlib_stream import END
from rollup_node.stages.derivation.reasons.channels import StreamExhausted


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
