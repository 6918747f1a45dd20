"""The search for the base against a plain walk over every parent [RS1]."""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.engine.calls.l2_block_info import L2BlockInfo
from rollup_node.stages.engine.starts.base_search import Base, BaseSearch, NeedBlock
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.errors import ResetError
from rollup_node.stages.protocol.types import BlockId, L2BlockRef
from tests.support.chains.chain_fixture import GENESIS_L1, GENESIS_TIME, ChainFixture, make_rollup

L1_TIME = 12
EARLY = ("regolith", "canyon", "delta", "ecotone", "fjord")


def chain_of_epochs(lengths: Iterable[int]) -> list[L2BlockInfo]:
    """An L2 chain whose epochs have these numbers of blocks; the first is that of genesis."""
    found: list[L2BlockInfo] = []
    for epoch, length in enumerate(lengths):
        origin = BlockId(GENESIS_L1 + epoch, bytes(28) + epoch.to_bytes(4, "big"))
        for sequence_number in range(length):
            number = len(found)
            ref = L2BlockRef(number.to_bytes(32, "big"), number, bytes(32), 2 * number, origin, sequence_number)
            found.append(
                L2BlockInfo(ref, GENESIS_TIME + L1_TIME * epoch, SystemConfig(bytes(20), ref.hash, ref.hash, 0))
            )
    return found


def plain_walk(rollup: RollupConfig, chain: Sequence[L2BlockInfo], safe: int, look_back: int = 0) -> Base:
    """RS1 word by word, and with a look-back ADA14."""
    genesis, schedule, at = rollup.genesis, rollup.schedule(), chain[safe]
    while (
        at.ref.number > genesis.l2.number
        and at.ref.l1_origin.number > genesis.l1.number
        and at.ref.l1_origin.number + max(schedule.l1(at.origin_time).channel_timeout, look_back)
        > chain[safe].ref.l1_origin.number
    ):
        at = chain[at.ref.number - 1]
    return Base(at.ref.l1_origin, at.config)


def search(rollup: RollupConfig, chain: Sequence[L2BlockInfo], safe: int, look_back: int = 0) -> tuple[Base, int]:
    machine, reads = BaseSearch(rollup, chain[safe], look_back), 0
    while isinstance(need := machine.next(), NeedBlock):
        reads += 1
        machine.add_block(need.number, chain[need.number])
    return need, reads


@settings(max_examples=100)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=120),
    cases=st.lists(
        st.tuples(st.integers(1, 150), st.integers(0, 150), st.just(0) | st.integers(0, 150), st.floats(0, 0.9999)),
        min_size=4,
        max_size=4,
    ),
)
def test_the_base_is_that_of_the_rule(lengths: list[int], cases: list[tuple[int, int, int, float]]) -> None:
    """Whatever the lengths of the epochs; the time of the walked-to origin decides which timeout counts [RS2]. Each
    case is a timeout, the epoch of Granite, the look-back, and where the safe head is."""
    chain = chain_of_epochs(lengths)
    for timeout, granite, look_back, at in cases:
        times = {**dict.fromkeys(EARLY, 0), "granite": GENESIS_TIME + L1_TIME * granite}
        rollup = make_rollup(times, channel_timeout=timeout)
        safe = int(at * len(chain))
        assert search(rollup, chain, safe, look_back)[0] == plain_walk(rollup, chain, safe, look_back)


@pytest.mark.parametrize(("timeout", "granite"), [(300, 10_000), (300, 0), (300, 1_960), (20, 1_960)])
def test_few_blocks_are_read(timeout: int, granite: int) -> None:
    """About ten on a chain of uneven epochs; only a timeout that grew at Granite takes one read for each epoch."""
    chain = chain_of_epochs(6 + (epoch * epoch) % 5 - 2 for epoch in range(2_000))
    times = {**dict.fromkeys(EARLY, 0), "granite": GENESIS_TIME + L1_TIME * granite}
    rollup = make_rollup(times, channel_timeout=timeout)
    found, reads = search(rollup, chain, len(chain) - 1)
    assert found == plain_walk(rollup, chain, len(chain) - 1)
    assert reads <= (50 if timeout == 20 else 12)


def test_a_shorter_timeout_before_granite_ends_the_walk_above_genesis() -> None:
    chain = chain_of_epochs([1, 1, 1])
    times = {**dict.fromkeys(EARLY, 0), "granite": GENESIS_TIME + 2 * L1_TIME}
    rollup = make_rollup(times, channel_timeout=1)
    found = search(rollup, chain, 2)[0]
    assert found == plain_walk(rollup, chain, 2)
    assert found.base.number == GENESIS_L1 + 1


def test_real_blocks(chain: ChainFixture) -> None:
    refs = chain.build(120)
    blocks = [chain.known[ref.hash] for ref in refs]
    assert search(chain.rollup, blocks, 120)[0] == plain_walk(chain.rollup, blocks, 120)


def test_a_missing_or_foreign_block_resets(chain: ChainFixture) -> None:
    refs = chain.build(40)
    machine = BaseSearch(chain.rollup, chain.known[refs[40].hash])
    need = machine.next()
    assert isinstance(need, NeedBlock)
    machine.add_block(need.number + 1, None)
    assert machine.next() == need, "an answer to another question is ignored"
    with pytest.raises(ResetError, match="has no block"):
        machine.add_block(need.number, None)
    with pytest.raises(ResetError, match="does not fit"):
        machine.add_block(need.number, chain.known[refs[39].hash])
