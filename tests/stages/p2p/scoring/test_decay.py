"""The decay of scores per slot [SCR1]."""

import pytest

from rollup_node.stages.p2p.scoring import decay


def test_a_decay_reaches_a_hundredth_after_its_epochs() -> None:
    assert decay.decay_factor(10) ** 60 == pytest.approx(0.01)


def test_a_slot_is_a_block_time() -> None:
    assert [decay.slot_seconds(block_time) for block_time in (0, 1, 2)] == [2.0, 1.0, 2.0]
    assert decay.epochs_seconds(100, 2) == 1200.0
