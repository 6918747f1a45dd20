"""The attributes that wait behind the present job, and results that derivation has not got."""

import msgspec
import pytest

from rollup_node.stages.derivation.process.requests import REPEAT_SECONDS
from rollup_node.stages.messages.attributes_channel import MAX_AHEAD, AttributesReceiver, AttributesSender
from rollup_node.stages.messages.engine import AttributesAhead, AttributesOutcome, AttributesReady, AttributesResult
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.types import ZERO_HASH, L1BlockRef, L2BlockRef
from tests.conformance.kit.chain import GENESIS, SYSTEM_CONFIG
from tests.conformance.kit.planning import plan
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
    assert [item.sequence for item in run.ahead] == [2]
    run.add(attributes(chain, 3, block), 1)
    assert [item.sequence for item in run.ahead] == [2, 3]


def test_they_may_follow_attributes_that_were_just_offered(chain: ChainFixture) -> None:
    run = AttributesReceiver()
    block = chain.build(1)[1]
    run.add(attributes(chain, 7), None)
    run.add(attributes(chain, 8, block), None)
    assert run.offered is not None and [item.sequence for item in run.ahead] == [8]


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
    answer = run.following(1, block, config)
    assert answer is not None and (answer.parent, answer.parent_config) == (block, None)
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


L1 = L1BlockRef(b"\x11" * 32, 5, bytes(32), 60)
BLOCKS = [GENESIS, *(block.ref for block in plan(GENESIS, 50))]
NOW = 1_000.0
ACCEPTED = AttributesOutcome.ACCEPTED


def output(number: int, ahead: bool = False, size: int = 1) -> AttributesReady:
    """Attributes of block `number`."""
    parent = BLOCKS[number - 1]
    attributes = PayloadAttributes(
        BLOCKS[number].timestamp, bytes(32), bytes(20), False, None, (bytes(size),), True, 9, None, None
    )
    if ahead:
        parent = msgspec.structs.replace(parent, hash=ZERO_HASH, parent_hash=ZERO_HASH)
    return AttributesReady(0, 0, parent, attributes, L1, False, SYSTEM_CONFIG if ahead else None)


def run_of(count: int) -> AttributesSender:
    """Return a run whose messages were sent: the first block's attributes, and `count` derived ahead."""
    run = AttributesSender(32)
    run.restart(7)
    run.derived(output(1), NOW)
    for number in range(2, count + 2):
        run.add(output(number, ahead=True))
    first, *rest = run.due(NOW)
    assert isinstance(first, AttributesReady) and (first.reset, first.sequence) == (7, 1)
    assert [len(item.blocks) for item in rest if isinstance(item, AttributesAhead)] == ([count] if count else [])
    return run


def result(sequence: int, accepted: int = 0, outcome: AttributesOutcome = ACCEPTED, held: int = 1) -> AttributesResult:
    """Return the outcome of number `sequence`, and of the `accepted` ones right before."""
    hashes = tuple(BLOCKS[item].hash for item in range(sequence - accepted, sequence))
    return AttributesResult(7, sequence, outcome, BLOCKS[sequence], SYSTEM_CONFIG, L1, hashes, held)


def answers(run: AttributesSender) -> list[tuple[int, L2BlockRef]]:
    """Return the answers, each taken once its attributes were derived again."""
    value = []
    while (answer := run.take_answer()) is not None:
        value.append((answer.sequence, answer.safe_head))
        run.derived(output(answer.sequence + 1), NOW)
    return value


def test_attributes_are_repeated_until_they_are_answered() -> None:
    run = run_of(0)
    assert run.due(NOW + REPEAT_SECONDS / 2) == []
    (again,) = run.due(NOW + REPEAT_SECONDS)
    assert again == run.current
    assert not run.take(result(1), NOW) and not run.take(result(1), NOW)
    assert answers(run) == [(1, BLOCKS[1])]


def test_one_result_answers_a_run() -> None:
    """The references of the blocks before the last are those that were predicted, with their hashes."""
    run = run_of(9)
    assert not run.take(result(8, accepted=7), NOW)
    assert answers(run) == [(number, BLOCKS[number]) for number in range(1, 9)]
    assert run.current is not None and run.current.sequence == 9
    assert run.due(NOW) == [], "the engine process has what was derived ahead"
    assert run.due(NOW + REPEAT_SECONDS) == [run.current], "it is repeated like any other"


@pytest.mark.parametrize(
    "wrong",
    [result(3), result(2, accepted=0), msgspec.structs.replace(result(1), reset=6), result(12, accepted=11)],
    ids=["gap", "gap of one", "another start", "never sent"],
)
def test_other_results_are_ignored(wrong: AttributesResult) -> None:
    run = run_of(4)
    assert not run.take(wrong, NOW) and run.take_answer() is None


def test_results_that_overlap_count_once() -> None:
    run = run_of(9)
    assert not run.take(result(2, accepted=1), NOW)
    assert not run.take(result(4, accepted=3), NOW)
    assert answers(run) == [(number, BLOCKS[number]) for number in range(1, 5)]


def test_after_a_refusal_sequences_are_new() -> None:
    """The engine process may still get what was derived ahead, under its own sequences."""
    run = run_of(5)
    refused = result(3, accepted=2, outcome=AttributesOutcome.REFUSED)
    assert not run.take(refused, NOW)
    for number in (2, 3):
        assert run.take_answer() is not None
        run.derived(output(number), NOW)
    answer = run.take_answer()
    assert answer is not None and answer.outcome is AttributesOutcome.REFUSED
    run.cancel_ahead()
    run.derived(output(1), NOW)
    assert run.current is not None and run.current.sequence == 7
    assert run.due(NOW) == [run.current]


def test_other_attributes_than_those_derived_ahead_are_sent() -> None:
    run = run_of(5)
    assert not run.take(result(1), NOW) and run.take_answer() is not None
    run.derived(output(2, size=3), NOW)
    assert run.current is not None and run.current.sequence == 7 and run.due(NOW) == [run.current]
    run.add(output(3, ahead=True))
    (more,) = run.due(NOW)
    assert isinstance(more, AttributesAhead) and more.blocks[0].sequence == 8


def test_lost_attributes_are_derived_ahead_again() -> None:
    run = run_of(5)
    later = NOW + REPEAT_SECONDS
    assert run.take(result(2, accepted=1, held=0), later), "they are lost"
    assert answers(run) == [(1, BLOCKS[1]), (2, BLOCKS[2])]
    assert run.due(later) == [run.current], "under another sequence"
    assert run.is_low


def test_a_run_is_bounded_and_filled_by_halves() -> None:
    run = run_of(16)
    assert run.is_low and run.has_room
    for number in range(18, 34):
        run.add(output(number, ahead=True))
    assert not run.has_room and not run.is_low
    run = run_of(1)
    run.add(output(3, ahead=True, size=4 << 20))
    assert not run.has_room
    run.cancel_ahead()
    assert run.has_room
