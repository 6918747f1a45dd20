"""Packed transactions and fields are the same as plain ones, however they are read, in a fraction of the memory."""

import random
from hashlib import sha256

import pytest

from rollup_node.stages.derivation.codec import packed
from rollup_node.stages.derivation.codec.packed import (
    CHUNK_BYTES,
    MAX_PLAIN_FIELD,
    PackedBytes,
    PackedTransactions,
    TransactionPacker,
    Transactions,
    memory_of,
    pack_field,
    plain_or_none,
)

CHANCE = random.Random(5)


@pytest.fixture(scope="module")
def mixed() -> tuple[bytes, ...]:
    """Transactions of all sizes."""
    return (
        *(CHANCE.randbytes(CHANCE.randrange(200)) for _ in range(40_000)),
        b"\x02" * (3 * CHUNK_BYTES),
        *(CHANCE.randbytes(CHANCE.randrange(200)) for _ in range(500)),
        CHANCE.randbytes(CHUNK_BYTES + 1),
        b"last",
    )


@pytest.fixture(scope="module")
def packed_mixed(mixed: tuple[bytes, ...]) -> PackedTransactions:
    """Return the same, packed."""
    return packed_transactions(*mixed)


def packed_transactions(*transactions: bytes) -> PackedTransactions:
    packer = TransactionPacker()
    for transaction in transactions:
        packer.add(transaction)
    result = packer.finish()
    assert isinstance(result, PackedTransactions)
    return result


def test_all_transactions_in_order(mixed: tuple[bytes, ...], packed_mixed: PackedTransactions) -> None:
    result = packed_mixed
    assert tuple(result) == mixed
    assert len(result) == len(mixed)
    ends = [part.first + len(part.transactions) for part in result.parts()]
    assert [part.first for part in result.parts()] == [0, *ends[:-1]]
    assert len(ends) > 6


@pytest.mark.parametrize(
    ("first", "end"), [(0, 0), (0, 3), (9_000, 30_001), (39_990, 40_002), (40_000, 40_001), (40_400, 99_999), (7, 3)]
)
def test_a_slice_is_the_same(mixed: tuple[bytes, ...], packed_mixed: PackedTransactions, first: int, end: int) -> None:
    assert tuple(packed_mixed[first:end]) == mixed[first:end]


def test_sizes_and_bytes(mixed: tuple[bytes, ...], packed_mixed: PackedTransactions) -> None:
    digest, expected = sha256(), sha256()
    for piece in packed_mixed.sizes_and_bytes():
        assert len(piece) <= CHUNK_BYTES
        digest.update(piece)
    for transaction in mixed:
        expected.update(len(transaction).to_bytes(8, "big") + transaction)
    assert digest.digest() == expected.digest()


def test_chunks_without_a_kind_are_left_out() -> None:
    result = packed_transactions(*[b"\x01a"] * 40_000, *[b"\x7e"] * 10, *[b"\x02b"] * 40_000, b"", *[b"\x03"] * 40_000)
    indexes = {first + at for first, part in result.parts(frozenset((0x7E,))) for at in range(len(part))}
    assert {40_000, 40_009, 80_010} <= indexes
    assert len(indexes) <= 3 << 14


def test_large_transactions_are_cut_off() -> None:
    result = packed_transactions(b"a" * 1000, b"b" * (CHUNK_BYTES + 7), b"c" * 1000)
    sizes = [len(transaction) for part in result.parts(cut=2000) for transaction in part.transactions]
    assert sizes == [1000, 2000, 1000]


def test_single_bytes() -> None:
    run = bytes(CHANCE.randrange(0x81) for _ in range(50_000)) + b"\x01" * 20_000
    packer = TransactionPacker()
    packer.add(b"before")
    packer.add_short(run)
    result = packer.finish()
    assert tuple(result) == (b"before", *(b"" if byte == 0x80 else bytes((byte,)) for byte in run))
    assert isinstance(result, PackedTransactions)
    last = result.chunks[-1]
    assert (last.kinds, last.has_empty) == (b"\x01", False)


def test_a_hundred_million_bytes_take_a_few_kilobytes() -> None:
    assert memory_of(packed_transactions(*[b"\x01" * 10_000_000] * 2)) < 5_000
    assert memory_of((b"ab", b"c")) == 2 * 41 + 3


def test_fields() -> None:
    assert pack_field(bytes(MAX_PLAIN_FIELD)) == bytes(MAX_PLAIN_FIELD)
    data = CHANCE.randbytes(3 * MAX_PLAIN_FIELD + 5)
    field = pack_field(data)
    assert isinstance(field, PackedBytes)
    assert bytes(iter(field)) == data and len(field) == len(data)
    assert (field[-1], field[-len(data)]) == (data[-1], data[0])
    assert pack_field(bytes(10_000_000)).memory < 60_000  # type: ignore[union-attr]


def test_what_stays_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    def given() -> Transactions | None:
        return plain_or_none(iter((b"a",) * 10), 1000)

    assert given() == (b"a",) * 10
    monkeypatch.setattr(packed, "MAX_PLAIN_COUNT", 9)
    assert given() is None
    monkeypatch.setattr(packed, "MAX_PLAIN_COUNT", 10)
    monkeypatch.setattr(packed, "MAX_PLAIN_BYTES", 999)
    assert given() is None
