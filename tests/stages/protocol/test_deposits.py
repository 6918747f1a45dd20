"""Deposit transactions: their encoding, and the portal logs that decode."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol import deposits, rlp
from rollup_node.stages.protocol.deposits import (
    DEPOSIT_TOPIC,
    DepositError,
    DepositTransaction,
)
from rollup_node.stages.protocol.types import ZERO_HASH, Log, MalformedLog

PORTAL = b"\x77" * 20
U256 = st.integers(0, 2**256 - 1)
DEPOSITS = st.builds(
    DepositTransaction,
    source_hash=st.binary(min_size=32, max_size=32),
    sender=st.binary(min_size=20, max_size=20),
    to=st.none() | st.binary(min_size=20, max_size=20),
    mint=U256,
    value=U256,
    gas=st.integers(0, 2**64 - 1),
    is_system=st.booleans(),
    data=st.binary(max_size=300),
)


def opaque_data(size: int) -> bytes:
    """Return 32 opaque bytes that claim another size."""
    return (32).to_bytes(32, "big") + size.to_bytes(32, "big") + bytes(32)


@given(DEPOSITS)
def test_deposits_round_trip(deposit: DepositTransaction) -> None:
    encoded = deposits.encode_deposit(deposit)
    assert deposits.decode_deposit(encoded) == deposit
    assert deposits.is_deposit(encoded)


@given(st.binary(max_size=200))
def test_random_bytes_raise_the_modules_error(data: bytes) -> None:
    with pytest.raises(DepositError):
        deposits.decode_deposit(b"\x7e" + data)
    log = Log(PORTAL, (DEPOSIT_TOPIC, ZERO_HASH, ZERO_HASH, ZERO_HASH), data, 0)
    assert isinstance(deposits.deposit_from_log(log, ZERO_HASH), MalformedLog | DepositTransaction)


FIELDS = [b"\x01" * 32, b"\x02" * 20, b"\x03" * 20, b"", b"", b"\x52\x08", b"", b"data"]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, b"\x01" * 31),
        (1, b"\x02" * 21),
        (1, b""),
        (2, b"\x03" * 19),
        (3, b"\x00"),
        (3, b"\x01" * 33),
        (4, b"\x00\x01"),
        (5, b"\x01" * 9),
        (6, b"\x02"),
        (6, b"\x00"),
        (7, [b"data"]),
        (0, []),
    ],
)
def test_each_field_is_checked(place: int, value: bytes | list[bytes]) -> None:
    assert deposits.decode_deposit(b"\x7e" + rlp.encode(FIELDS)).data == b"data"
    with pytest.raises(DepositError, match="malformed deposit transaction"):
        deposits.decode_deposit(b"\x7e" + rlp.encode([*FIELDS[:place], value, *FIELDS[place + 1 :]]))


@pytest.mark.parametrize("encoded", [b"", b"\x02", b"\x7e", b"\x7e" + rlp.encode(FIELDS[:7]), rlp.encode(FIELDS)])
def test_malformed_deposits(encoded: bytes) -> None:
    with pytest.raises(DepositError):
        deposits.decode_deposit(encoded)
    assert not deposits.is_deposit(b"")


def test_checks_come_in_order() -> None:
    """A log that fails every check shows the first, and after each correction the next one [DEP16 to DEP23]."""
    other = b"\x01" * 32
    topics = [(other,), (other, ZERO_HASH, ZERO_HASH, other), (DEPOSIT_TOPIC, ZERO_HASH, ZERO_HASH, other)]
    for known, data, text in (
        (topics[0], bytes(33), "expected 4 event topics"),
        (topics[1], bytes(33), "event selector"),
        (topics[2], bytes(33), "incomplete opaqueData"),
        (topics[2], bytes(65), "multiple of 32"),
        (topics[2], bytes(96), "header offset"),
        (topics[2], opaque_data(99), "header length"),
        (topics[2], opaque_data(32), "deposit version, got"),
        ((*topics[2][:3], ZERO_HASH), opaque_data(32), "opaqueData length"),
    ):
        result = deposits.deposit_from_log(Log(PORTAL, known, data, 0), ZERO_HASH)
        assert isinstance(result, MalformedLog) and text in result.text
