"""Of a block that no engine can build, the engine gets no more than shows it."""

from rollup_node.stages.derivation.codec.packed import PackedTransactions, TransactionPacker
from rollup_node.stages.derivation.pipeline.block_gas import payload_transactions
from rollup_node.stages.protocol.unexecutable import least_gas

GAS_LIMIT = 30_000_000


def _packed(*transactions: bytes) -> PackedTransactions:
    packer = TransactionPacker()
    for transaction in transactions:
        packer.add(transaction)
    found = packer.finish()
    assert isinstance(found, PackedTransactions)
    return found


def test_blocks_that_may_be_built_are_whole() -> None:
    transactions = (b"\x02" * 100_000,) * 140
    assert tuple(payload_transactions(transactions, 0)) == transactions, "plain ones are never cut"
    assert tuple(payload_transactions(_packed(*transactions), GAS_LIMIT)) == transactions


def test_the_rest_beyond_the_gas_limit_is_left_out() -> None:
    found = list(payload_transactions(_packed(*[b"\x02"] * 50_000), GAS_LIMIT))
    assert found == [b"\x02"] * 15_001
    assert sum(least_gas(2, len(transaction)) for transaction in found) > GAS_LIMIT


def test_a_large_transaction_is_cut_off_beyond_the_gas_limit() -> None:
    (found,) = payload_transactions(_packed(b"\x02" * 40_000_000), GAS_LIMIT)
    assert len(found) < 16_000_000
    assert least_gas(2, len(found)) > GAS_LIMIT


def test_a_post_exec_transaction_is_neither_counted_nor_cut_and_the_last() -> None:
    """One that follows it shows that the block is invalid [V15]."""
    users, post_exec = (b"\x02" * 100_000,) * 140, b"\x7d" * 20_000_000
    assert tuple(payload_transactions(_packed(*users, post_exec), GAS_LIMIT)) == (*users, post_exec)
    for following in (b"\x7d", b"\x02"):
        found = tuple(payload_transactions(_packed(*users, post_exec, *[following] * 5_000), GAS_LIMIT))
        assert found == (*users, post_exec, following)
