"""The file of the newest proven root [LCP13]."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.l1.proof import MARKS, Unproven
from rollup_node.stages.l1.stored_root import (
    MAX_BYTES,
    StoredRoot,
    StoredRootError,
    decode_stored_root,
    encode_stored_root,
)

STORED = StoredRoot(b"\1" * 32, b"\2" * 32, b"\3" * 32, 77)
MARKED = Unproven(5, 1 << 24, b"\4" * 32, ((1 << 23, b"\5" * 32),) * (MARKS + 1))
MANY = dict.fromkeys(range(10**9, 10**9 + 50), MARKED)


@pytest.mark.parametrize("unproven", [{}, MANY])
def test_what_is_written_is_read(unproven: dict[int, Unproven]) -> None:
    stored = msgspec.structs.replace(STORED, unproven=unproven)
    content = encode_stored_root(stored)
    assert decode_stored_root(content) == stored and len(content) < MAX_BYTES


def test_it_stands_for_its_checkpoint_and_for_itself() -> None:
    assert STORED.replaces(b"\2" * 32) and STORED.replaces(b"\3" * 32)
    assert not STORED.replaces(b"\1" * 32)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"{}",
        encode_stored_root(STORED)[:-10],
        encode_stored_root(STORED).replace(b"0x0303", b"0x"),
        encode_stored_root(STORED).replace(b"77", b"-1.5"),
        *[encode_stored_root(STORED).replace(b"77", number) for number in (b"-1", b"1" + b"0" * 30)],
        *[
            encode_stored_root(msgspec.structs.replace(STORED, unproven={10: Unproven(first, last, b"\4" * 32)}))
            for first, last in ((-5, 9), (9, 5), (5, (1 << 63) + 1))
        ],
        b"[" * MAX_BYTES,
    ],
)
def test_another_file_is_refused(content: bytes) -> None:
    with pytest.raises(StoredRootError):
        decode_stored_root(content)


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_in_words(content: bytes) -> None:
    with pytest.raises(StoredRootError):
        decode_stored_root(content)
