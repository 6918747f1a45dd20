"""The attributes that wait behind the present job, and results that derivation has not got."""

import msgspec
import pytest

from rollup_node.stages.messages.attributes.receiver import MAX_AHEAD, AttributesReceiver
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.types import ZERO_HASH, L2BlockRef
from tests.support.chains.chain_fixture import ChainFixture, make_rollup


@pytest.fixture
def chain() -> ChainFixture:
    return ChainFixture(make_rollup())


def attributes(chain: ChainFixture, sequence: int, block: L2BlockRef | None = None) -> AttributesReady:
    """On a known parent, or ahead on the block that is predicted to have the values of `block`."""
    parent = chain.genesis if block is None else msgspec.structs.replace(block, hash=ZERO_HASH, parent_hash=ZERO_HASH)
    config = None if block is None else chain.known[block.hash].config
    made = chain.attributes(chain.genesis, 100)
    return AttributesReady(1, sequence, parent, made, chain.l1_ref(102), False, parent_config=config)


def test_attributes_ahead_leave_no_gap(chain: ChainFixture) -> None:
    run = AttributesReceiver()
    block = chain.build(1)[1]
    run.add(attributes(chain, 2, block), None)
    assert not run.ahead, "no block was accepted before"
    run.add(attributes(chain, 2, block), 1)
    run.add(attributes(chain, 4, block), 1)
    run.add(attributes(chain, 2, block), 1)
    assert [each.sequence for each in run.ahead] == [2]
    run.add(attributes(chain, 3, block), 1)
    assert [each.sequence for each in run.ahead] == [2, 3]


def test_they_may_follow_attributes_that_were_just_offered(chain: ChainFixture) -> None:
    run = AttributesReceiver()
    block = chain.build(1)[1]
    run.add(attributes(chain, 7), None)
    run.add(attributes(chain, 8, block), None)
    assert run.offered is not None and [each.sequence for each in run.ahead] == [8]


def test_they_are_bounded(chain: ChainFixture) -> None:
    run = AttributesReceiver()
    block = chain.build(1)[1]
    for sequence in range(2, MAX_AHEAD + 10):
        run.add(attributes(chain, sequence, block), 1)
    assert len(run.ahead) == MAX_AHEAD


def test_they_count_on_the_predicted_block_alone(chain: ChainFixture) -> None:
    block = chain.build(1)[1]
    config = chain.known[block.hash].config
    changes = {"number": 9, "timestamp": 9, "l1_origin": chain.l1_ref(103).id, "sequence_number": 9}
    others = [(msgspec.structs.replace(block, **{name: value}), config) for name, value in changes.items()]
    others.append((block, msgspec.structs.replace(config, gas_limit=9)))
    for other, carried in others:
        run = AttributesReceiver()
        run.add(attributes(chain, 2, block), 1)
        run.add(attributes(chain, 3, block), 1)
        assert run.following(1, other, carried) is None and not run.ahead, "all behind it are dropped"
    run = AttributesReceiver()
    run.add(attributes(chain, 2, block), 1)
    found = run.following(1, block, config)
    assert found is not None and (found.parent, found.parent_config) == (block, None)
    assert run.ahead, "it waits until its turn has come"
    assert run.following(2, block, config) is None and not run.ahead, "it was processed"


def test_results_are_sent_from_the_first_that_is_missing() -> None:
    run = AttributesReceiver()
    for sequence in range(1, 6):
        run.accept(sequence, bytes([sequence]) * 32)
    assert run.take_accepted(3) == (b"\1" * 32, b"\2" * 32)
    assert run.take_accepted(5) == (b"\4" * 32,)
    run.repeat_from(2)
    assert run.take_accepted(5) == (b"\2" * 32, b"\3" * 32, b"\4" * 32)
    run.clear()
    assert run.take_accepted(1) == ()
