"""The attributes of an accepted batch."""

import pytest

from rollup_node.stages.derivation.codec.batches import SingularBatch
from rollup_node.stages.derivation.pipeline.batch_attributes import Chains, batch_attributes, payload_transactions
from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow
from rollup_node.stages.protocol.errors import CriticalError, ResetError
from rollup_node.stages.protocol.unexecutable import least_gas
from tests.conformance.kit.chain import GENESIS, L1_CHAIN, SYSTEM_CONFIG, L1Blocks, forks_until, rollup
from tests.conformance.kit.planning import USER
from tests.stages.derivation.codec.test_packed import packed_transactions

CHAINS = Chains(rollup(forks_until("holocene")), L1_CHAIN)


def batch(epoch: int) -> SingularBatch:
    return SingularBatch(GENESIS.hash, epoch, bytes(32), GENESIS.timestamp + 2, (USER,))


def test_the_batchs_transactions_follow_the_deposits() -> None:
    """[AQ2, AQ6]"""
    window = L1OriginWindow(L1Blocks().last)
    result = batch_attributes(CHAINS, window, batch(window.first_number), GENESIS, SYSTEM_CONFIG)
    assert result.timestamp == GENESIS.timestamp + 2 and result.no_tx_pool
    assert len(result.transactions) == 2 and result.transactions[-1] == USER


def test_an_epoch_that_does_not_follow_needs_a_reset() -> None:
    blocks = L1Blocks()
    blocks.add()
    blocks.add()
    window = L1OriginWindow(blocks.last)
    with pytest.raises(ResetError):
        batch_attributes(CHAINS, window, batch(window.first_number), GENESIS, SYSTEM_CONFIG)
    with pytest.raises(CriticalError, match="is not known"):
        batch_attributes(CHAINS, window, batch(window.first_number + 1), GENESIS, SYSTEM_CONFIG)


GAS_LIMIT = 30_000_000


def test_blocks_that_may_be_built_are_whole() -> None:
    transactions = (b"\x02" * 100_000,) * 140
    assert tuple(payload_transactions(transactions, 0)) == transactions, "plain ones are never cut"
    assert tuple(payload_transactions(packed_transactions(*transactions), GAS_LIMIT)) == transactions


def test_the_rest_beyond_the_gas_limit_is_left_out() -> None:
    result = list(payload_transactions(packed_transactions(*[b"\x02"] * 50_000), GAS_LIMIT))
    assert result == [b"\x02"] * 15_001
    assert sum(least_gas(2, len(transaction)) for transaction in result) > GAS_LIMIT


def test_a_large_transaction_is_cut_off_beyond_the_gas_limit() -> None:
    (result,) = payload_transactions(packed_transactions(b"\x02" * 40_000_000), GAS_LIMIT)
    assert len(result) < 16_000_000
    assert least_gas(2, len(result)) > GAS_LIMIT


def test_a_post_exec_transaction_is_neither_counted_nor_cut_and_the_last() -> None:
    """One that follows it shows that the block is invalid [V15]."""
    users, post_exec = (b"\x02" * 100_000,) * 140, b"\x7d" * 20_000_000
    assert tuple(payload_transactions(packed_transactions(*users, post_exec), GAS_LIMIT)) == (*users, post_exec)
    for following in (b"\x7d", b"\x02"):
        result = tuple(payload_transactions(packed_transactions(*users, post_exec, *[following] * 5_000), GAS_LIMIT))
        assert result == (*users, post_exec, following)
