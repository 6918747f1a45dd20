"""Alt-DA commitments as bytes [AD5, ADA3, ADA4]."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol.commitments import (
    GENERIC,
    KECCAK,
    Commitment,
    CommitmentError,
    decode_commitment,
    keccak_commitment,
)
from rollup_node.stages.protocol.keccak import keccak256

DIGEST = b"\x44" * 32


def test_commitments_and_their_bytes() -> None:
    for commitment in (Commitment(KECCAK, DIGEST), Commitment(GENERIC, b"\x00"), Commitment(GENERIC, bytes(5000))):
        assert decode_commitment(commitment.encode()) == commitment
    assert Commitment(GENERIC, b"\x0c\xab").encode() == b"\x01\x0c\xab"


@pytest.mark.parametrize(
    ("encoded", "error"),
    [
        (b"", "no bytes"),
        (b"\0", "keccak of 0 bytes"),
        (b"\0" + DIGEST[:31], "keccak of 31 bytes"),
        (b"\0" + DIGEST + b"\0", "keccak of 33 bytes"),
        (b"\1", "no bytes after its type"),
        (b"\2" + DIGEST, "unknown type 2"),
    ],
)
def test_malformed_ones(encoded: bytes, error: str) -> None:
    with pytest.raises(CommitmentError) as caught:
        decode_commitment(encoded)
    assert str(caught.value) == error


@given(st.binary(max_size=80))
def test_any_bytes_are_a_commitment_or_malformed(encoded: bytes) -> None:
    with suppress(CommitmentError):
        assert decode_commitment(encoded).encode() == encoded


def test_only_keccak_says_what_it_commits_to() -> None:
    commitment = keccak_commitment(b"input")
    assert commitment == Commitment(KECCAK, keccak256(b"input"))
    assert commitment.matches(b"input")
    assert not commitment.matches(b"other")
    assert Commitment(GENERIC, b"\1").matches(b"other")


def test_texts_are_short() -> None:
    assert str(Commitment(KECCAK, DIGEST)) == "0x00" + "44" * 32
    assert str(Commitment(GENERIC, bytes(5000))).endswith("... (5000 bytes)")
    assert len(str(Commitment(GENERIC, bytes(5000)))) < 110
