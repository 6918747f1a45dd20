"""The transaction pool: order, replacement, limits."""

import pytest

from rollup_node.tools.batcher.driver import Fees, Key, dynamic_fee_transaction
from rollup_node.tools.devnet.chain import transaction_pool as pools
from rollup_node.tools.devnet.chain.transaction_pool import TransactionPool
from rollup_node.tools.devnet.evm.transactions import InvalidTransaction, SignedTransaction, read_signed

KEYS = [Key(bytes([number]) * 32) for number in range(1, 4)]


def signed(key: int, nonce: int, tip: int = 1, cap: int = 1000, data: bytes = b"") -> SignedTransaction:
    fees = Fees(tip=tip, cap=cap)
    return read_signed(dynamic_fee_transaction(KEYS[key], 1, nonce, b"\x01" * 20, 0, data, 21_000, fees), 1)


def ready(pool: TransactionPool, nonces: dict[bytes, int] | None = None) -> list[SignedTransaction]:
    return list(pool.ready(10, lambda sender: (nonces or {}).get(sender, 0)))


def test_senders_by_tip_and_transactions_by_nonce() -> None:
    pool = TransactionPool()
    cheap, dear, next_dear, gap = signed(0, 0, 1), signed(1, 0, 9), signed(1, 1, 2), signed(2, 1, 50)
    for transaction in (cheap, next_dear, dear, gap):
        pool.add(transaction, 0)
    assert ready(pool) == [dear, next_dear, cheap]
    assert pool.next_nonce(dear.sender, 0) == 2 and pool.next_nonce(gap.sender, 0) == 0
    assert ready(pool, {dear.sender: 1}) == [next_dear, cheap] and pool.get(dear.hash) is None


def test_a_replacement_pays_ten_percent_more() -> None:
    pool = TransactionPool()
    old = signed(0, 0, cap=1000)
    pool.add(old, 0)
    with pytest.raises(InvalidTransaction, match="underpriced"):
        pool.add(signed(0, 0, cap=1099), 0)
    new = signed(0, 0, cap=1100)
    pool.add(new, 0)
    assert pool.get(old.hash) is None and pool.get(new.hash) == new and len(pool) == 1


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = TransactionPool()
    monkeypatch.setattr(pools, "MAX_TRANSACTIONS", 2)
    with pytest.raises(InvalidTransaction, match="bytes"):
        pool.add(signed(0, 0, data=bytes(pools.MAX_SIZE)), 0)
    pool.add(signed(0, 0), 0)
    pool.add(signed(0, 1), 0)
    with pytest.raises(InvalidTransaction, match="full"):
        pool.add(signed(1, 0), 0)
    pool.add(signed(0, 1, cap=5000), 0)
    pool.reinject([signed(1, 0)])
    assert len(pool) == 2
