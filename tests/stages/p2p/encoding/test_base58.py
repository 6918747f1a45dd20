"""base58 round trips and known encodings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.encoding import base58


@given(st.binary(max_size=60))
def test_round_trip(data: bytes) -> None:
    assert base58.decode(base58.encode(data)) == data


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"", ""), (b"\0\0", "11"), (b"Hello World!", "2NEpo7TZRRrLZSi2U"), (bytes.fromhex("0000287fb4cd"), "11233QC4")],
)
def test_known_encodings(data: bytes, text: str) -> None:
    assert base58.encode(data) == text
    assert base58.decode(text) == data


@pytest.mark.parametrize("text", ["0", "O", "I", "l", "ab c", "é"])
def test_other_characters_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="base58"):
        base58.decode(text)
