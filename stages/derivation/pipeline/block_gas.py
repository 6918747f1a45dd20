"""Blocks that are too large for any engine: how much of their transactions the engine must see to refuse them.

A channel has room for a block of 100 million transactions. An engine refuses a block whose transactions need more gas
than its limit, or that goes on after a post-exec transaction [V15], so it refuses it for the same reason if the rest of
them is left out."""

from collections.abc import Iterable, Iterator

from rollup_node.stages.derivation.codec.packed import PackedTransactions, Transactions
from rollup_node.stages.derivation.pipeline.batch_checks import POST_EXEC_TYPE

LEAST_GAS, LEAST_GAS_PER_BYTE = 2_000, 2
"""Gas that every transaction takes at the least, and every byte of it beyond FIXED_BYTES. The protocol's numbers are
21,000 and 4, of which refunds give back a fifth at most; there is room for a fork that lowers them."""
FIXED_BYTES = 300
"""More than all fields of a transaction take that are not paid by the byte."""


def payload_transactions(transactions: Transactions, gas_limit: int) -> Iterable[bytes]:
    """The transactions of a block; of packed ones no more than exceed the gas limit for certain, or than the first
    behind a post-exec one. A transaction that alone exceeds the limit may be cut off: whatever it begins with takes too
    much gas, or is no transaction."""
    return _first(transactions, gas_limit) if isinstance(transactions, PackedTransactions) else transactions


def least_gas(kind: int, size: int) -> int:
    """The least gas of a transaction of this type and of `size` bytes; nothing is known of post-exec ones."""
    return 0 if kind == POST_EXEC_TYPE else LEAST_GAS + LEAST_GAS_PER_BYTE * max(0, size - FIXED_BYTES)


def _first(transactions: PackedTransactions, gas_limit: int) -> Iterator[bytes]:
    gas, is_complete = 0, False
    largest = gas_limit // LEAST_GAS_PER_BYTE + FIXED_BYTES
    for part in transactions.parts(cut=largest, uncut=bytes((POST_EXEC_TYPE,))):
        for transaction in part.transactions:
            yield transaction
            gas += least_gas(transaction[0], len(transaction))
            if is_complete or gas > gas_limit:
                return
            is_complete = transaction[0] == POST_EXEC_TYPE
