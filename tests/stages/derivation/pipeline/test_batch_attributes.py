"""The attributes of an accepted batch."""

import pytest

from rollup_node.stages.derivation.codec.batches import SingularBatch
from rollup_node.stages.derivation.pipeline.batch_attributes import Chains, batch_attributes
from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow
from rollup_node.stages.protocol.errors import CriticalError, ResetError
from tests.conformance.kit.chain import GENESIS, L1_CHAIN, SYSTEM_CONFIG, L1Blocks, forks_until, rollup
from tests.conformance.kit.planning import USER

CHAINS = Chains(rollup(forks_until("holocene")), L1_CHAIN)


def batch(epoch: int) -> SingularBatch:
    return SingularBatch(GENESIS.hash, epoch, bytes(32), GENESIS.timestamp + 2, (USER,))


def test_the_batchs_transactions_follow_the_deposits() -> None:
    """[AQ2, AQ6]"""
    window = L1OriginWindow(L1Blocks().last)
    found = batch_attributes(CHAINS, window, batch(window.first_number), GENESIS, SYSTEM_CONFIG)
    assert found.timestamp == GENESIS.timestamp + 2 and found.no_tx_pool
    assert len(found.transactions) == 2 and found.transactions[-1] == USER


def test_an_epoch_that_does_not_follow_needs_a_reset() -> None:
    blocks = L1Blocks()
    blocks.add()
    blocks.add()
    window = L1OriginWindow(blocks.last)
    with pytest.raises(ResetError):
        batch_attributes(CHAINS, window, batch(window.first_number), GENESIS, SYSTEM_CONFIG)
    with pytest.raises(CriticalError, match="is not known"):
        batch_attributes(CHAINS, window, batch(window.first_number + 1), GENESIS, SYSTEM_CONFIG)
