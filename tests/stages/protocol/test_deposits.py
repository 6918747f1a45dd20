"""Deposit transactions: their encoding, and the portal logs that decode."""

from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol import deposits, rlp
from rollup_node.stages.protocol.deposits import (
    DEPOSIT_TOPIC,
    DepositError,
    DepositFailure,
    DepositTransaction,
)
from rollup_node.stages.protocol.types import ZERO_HASH, Log

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


@dataclass
class OpaqueData:
    """The data of a portal log: ABI offset, length and opaque bytes, of which each may be wrong."""

    opaque: bytes
    offset: int = 32
    size: int | None = None

    def encode(self) -> bytes:
        size = len(self.opaque) if self.size is None else self.size
        padding = bytes(-len(self.opaque) % 32)
        return self.offset.to_bytes(32, "big") + size.to_bytes(32, "big") + self.opaque + padding


def opaque(deposit: DepositTransaction) -> bytes:
    amounts = deposit.mint.to_bytes(32, "big") + deposit.value.to_bytes(32, "big") + deposit.gas.to_bytes(8, "big")
    return amounts + (b"\x01" if deposit.to is None else b"\x00") + deposit.data


def portal_log(deposit: DepositTransaction, index: int) -> Log:
    word = b"\0" * 12
    topics = (DEPOSIT_TOPIC, word + deposit.sender, word + (deposit.to or bytes(20)), ZERO_HASH)
    return Log(PORTAL, topics, OpaqueData(opaque(deposit)).encode(), index)


@given(DEPOSITS)
def test_deposits_round_trip(deposit: DepositTransaction) -> None:
    encoded = deposits.encode_deposit(deposit)
    assert deposits.decode_deposit(encoded) == deposit
    assert deposits.is_deposit(encoded)


@given(DEPOSITS, st.binary(min_size=32, max_size=32), st.integers(0, 5000))
def test_portal_logs_become_deposits(deposit: DepositTransaction, block_hash: bytes, index: int) -> None:
    result = deposits.deposit_from_log(portal_log(deposit, index), block_hash)
    source_hash = deposits.user_source_hash(block_hash, index)
    assert result == msgspec.structs.replace(deposit, source_hash=source_hash, is_system=False)


@given(st.binary(max_size=200))
def test_random_bytes_raise_the_modules_error(data: bytes) -> None:
    with pytest.raises(DepositError):
        deposits.decode_deposit(b"\x7e" + data)
    log = Log(PORTAL, (DEPOSIT_TOPIC, ZERO_HASH, ZERO_HASH, ZERO_HASH), data, 0)
    assert isinstance(deposits.deposit_from_log(log, ZERO_HASH), DepositFailure | DepositTransaction)


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


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (OpaqueData(bytes(73), offset=33), "header offset"),
        (OpaqueData(bytes(73), offset=32 + 2**64), "header offset"),
        (OpaqueData(bytes(73), size=97), "header length"),
        (OpaqueData(bytes(73), size=2**255), "header length"),
        (OpaqueData(bytes(96), size=64), "header length"),
        (OpaqueData(bytes(72)), "opaqueData length"),
        (OpaqueData(b"", size=0), "opaqueData length"),
    ],
)
def test_undecodable_opaque_data(data: OpaqueData, text: str) -> None:
    log = Log(PORTAL, (DEPOSIT_TOPIC, ZERO_HASH, ZERO_HASH, ZERO_HASH), data.encode(), 6)
    result = deposits.deposit_from_log(log, ZERO_HASH)
    assert isinstance(result, DepositFailure)
    assert text in result.text and result.log_index == 6


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
        (topics[2], OpaqueData(bytes(32), size=99).encode(), "header length"),
        (topics[2], OpaqueData(bytes(32)).encode(), "deposit version, got"),
        ((*topics[2][:3], ZERO_HASH), OpaqueData(bytes(32)).encode(), "opaqueData length"),
    ):
        result = deposits.deposit_from_log(Log(PORTAL, known, data, 0), ZERO_HASH)
        assert isinstance(result, DepositFailure) and text in result.text
