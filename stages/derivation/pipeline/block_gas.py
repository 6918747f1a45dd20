"""Blocks that are too large for any engine: how much of their transactions the engine must see to refuse them.

A channel has room for a block of 100 million transactions. An engine refuses a block whose transactions need more gas
than its limit, or that goes on after a post-exec transaction [V15], so it refuses it for the same reason if the rest of
them is left out."""

from collections.abc import Iterable, Iterator

from rollup_node.stages.derivation.codec.packed import PackedTransactions, Transactions
from rollup_node.stages.derivation.pipeline.batch_checks import POST_EXEC_TYPE
from rollup_node.stages.protocol.unexecutable import FIXED_BYTES, LEAST_GAS_PER_BYTE, least_gas


def payload_transactions(transactions: Transactions, gas_limit: int) -> Iterable[bytes]:
    """Return the transactions of a block; of packed ones no more than are certain to exceed the gas limit.

    Nor more than the first behind a post-exec one. A transaction that alone exceeds the limit may be cut off:
    whatever it begins with takes too much gas, or is no transaction."""
    return _first(transactions, gas_limit) if isinstance(transactions, PackedTransactions) else transactions


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
