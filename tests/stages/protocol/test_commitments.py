"""Alt-DA commitments as bytes [AD5, ADA3, ADA4]."""

from typing import Any

import pytest
from eth_abi.abi import encode

from rollup_node.stages.protocol.commitments import (
    CHALLENGE_TOPIC,
    GENERIC,
    KECCAK,
    ChallengeError,
    ChallengeEvent,
    ChallengeStatus,
    Commitment,
    decode_event,
    keccak_commitment,
    resolve_data,
    resolves,
)
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import Log

DIGEST = b"\x44" * 32


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


CONTRACT = b"\xda" * 20
COMMITMENT = Commitment(KECCAK, b"\x44" * 32)
SELECTOR = b"\x12\x34\x56\x78"


def event_log(commitment: bytes, status: int, block: int = 14, **changes: Any) -> Log:
    data = encode(["bytes", "uint8"], [commitment, status])
    topics = changes.get("topics", (CHALLENGE_TOPIC, block.to_bytes(32, "big")))
    return Log(CONTRACT, topics, changes.get("data", data), 3)


def test_an_event_from_the_tests_of_op_alt_da() -> None:
    """Topics and data of op-alt-da/damgr_test.go at op-node/v1.16.1."""
    topics = (
        bytes.fromhex("c5d8c630ba2fdacb1db24c4599df78c7fb8cf97b5aecde34939597f6697bb1ad"),
        bytes.fromhex("000000000000000000000000000000000000000000000000000000000000000e"),
    )
    digest = bytes.fromhex("eed82c1026bdd0f23461dd6ca515ef677624e63e6fc0ff91e3672af8eddf579d")
    words = (64, 1, 33)
    data = b"".join(word.to_bytes(32, "big") for word in words) + b"\0" + digest + bytes(31)
    assert topics[0] == CHALLENGE_TOPIC
    event = decode_event(Log(CONTRACT, topics, data, 0))
    assert event == ChallengeEvent(Commitment(KECCAK, digest), 14, ChallengeStatus.ACTIVE)


def test_a_block_number_has_64_bits() -> None:
    assert decode_event(event_log(COMMITMENT.encode(), 1, (7 << 64) + 5)).block_number == 5


@pytest.mark.parametrize(
    ("log", "error"),
    [
        (event_log(b"", 1, data=b""), "0 bytes are too few"),
        (event_log(b"", 1, data=bytes(63)), "63 bytes are too few"),
        (event_log(b"", 1), "malformed commitment: no bytes"),
        (event_log(b"\x05abc", 1), "malformed commitment: unknown type 5"),
        (event_log(COMMITMENT.encode(), 1, topics=(CHALLENGE_TOPIC,)), "1 topics"),
        (event_log(COMMITMENT.encode(), 1, topics=(CHALLENGE_TOPIC, bytes(32), bytes(32))), "3 topics"),
        (event_log(b"", 1, data=bytes(32) + (256).to_bytes(32, "big")), "the status has more than 8 bits"),
        (event_log(b"", 1, data=b"\xff" * 32 + bytes(32)), "an offset lies outside the data"),
        (event_log(b"", 1, data=(32).to_bytes(32, "big") + (1).to_bytes(32, "big")), "a length reaches outside"),
    ],
)
def test_malformed_events(log: Log, error: str) -> None:
    with pytest.raises(ChallengeError, match=error):
        decode_event(log)
    assert not resolves(log)


@pytest.mark.parametrize(
    "calldata",
    [
        b"",
        b"abc",
        SELECTOR,
        SELECTOR + bytes(95),
        SELECTOR + encode(["uint256", "bytes", "bytes"], [14, COMMITMENT.encode(), b""]),
        SELECTOR + encode(["uint256", "bytes"], [14, COMMITMENT.encode()])[:80],
        SELECTOR + encode(["uint256", "bytes", "bytes"], [14, b"x", b"y" * 40])[:-30],
    ],
)
def test_calldata_without_data(calldata: bytes) -> None:
    with pytest.raises(ChallengeError):
        resolve_data(calldata)
