"""Which moves of the heads are allowed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.engine.calls.heads import Forkchoice, Heads
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.types import L2BlockRef
from tests.support.chains.chain_fixture import ChainFixture, make_rollup


def test_moves(chain: ChainFixture) -> None:
    refs = chain.build(6)
    heads = Heads(refs[4], refs[1], refs[1], refs[0])
    assert heads.forkchoice() == Forkchoice(refs[4].hash, refs[1].hash, refs[0].hash)
    pending = heads.with_derived(refs[2], concluding=False)
    assert (pending.pending_safe, pending.safe, pending.unsafe) == (refs[2], refs[1], refs[4])
    assert pending.without_pending() == heads
    assert heads.with_derived(refs[5], concluding=True) == Heads(refs[5], refs[5], refs[5], refs[0])
    with pytest.raises(CriticalError):
        Heads(refs[4], refs[3], refs[3], refs[3]).with_unsafe(refs[2])


@pytest.fixture(scope="module")
def lasting_refs() -> list[L2BlockRef]:
    """Blocks for the many examples of a property."""
    return ChainFixture(make_rollup()).build(6)


@given(moves=st.lists(st.integers(0, 6), max_size=12))
def test_finality_only_rises_and_stays_below_the_safe_head(moves: list[int], lasting_refs: list[L2BlockRef]) -> None:
    refs = lasting_refs
    heads = Heads(refs[6], refs[4], refs[4], refs[0])
    for number in moves:
        moved = heads.with_finalized(refs[number])
        assert heads.finalized.number <= moved.finalized.number <= moved.safe.number
        heads = moved
