"""Attributes on their way to the engine process, and its answers, alone and in runs."""

import msgspec
import pytest

from rollup_node.stages.derivation.process.requests import REPEAT_SECONDS
from rollup_node.stages.messages.attributes.sender import AttributesSender
from rollup_node.stages.messages.engine import AttributesAhead, AttributesOutcome, AttributesReady, AttributesResult
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.types import ZERO_HASH, L1BlockRef, L2BlockRef
from tests.conformance.kit.chain import GENESIS, SYSTEM_CONFIG
from tests.conformance.kit.planning import plan

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
    """A run whose messages were sent: the first block's attributes, and `count` derived ahead."""
    run = AttributesSender(32)
    run.restart(7)
    run.derived(output(1), NOW)
    for number in range(2, count + 2):
        run.add(output(number, ahead=True))
    first, *rest = run.due(NOW)
    assert isinstance(first, AttributesReady) and (first.reset, first.sequence) == (7, 1)
    assert [len(each.blocks) for each in rest if isinstance(each, AttributesAhead)] == ([count] if count else [])
    return run


def result(sequence: int, accepted: int = 0, outcome: AttributesOutcome = ACCEPTED, held: int = 1) -> AttributesResult:
    """The outcome of number `sequence`, and of the `accepted` ones right before."""
    hashes = tuple(BLOCKS[each].hash for each in range(sequence - accepted, sequence))
    return AttributesResult(7, sequence, outcome, BLOCKS[sequence], SYSTEM_CONFIG, L1, hashes, held)


def answers(run: AttributesSender) -> list[tuple[int, L2BlockRef]]:
    """The answers, each taken once its attributes were derived again."""
    found = []
    while (answer := run.take_answer()) is not None:
        found.append((answer.sequence, answer.safe_head))
        run.derived(output(answer.sequence + 1), NOW)
    return found


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
