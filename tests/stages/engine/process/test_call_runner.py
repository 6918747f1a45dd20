"""Calls in tasks of their own: answers, errors, and the end of the process."""

import asyncio
from contextlib import suppress

import msgspec
import pytest

from rollup_node.stages.engine.calls.calls import CallPurpose, CoreAnswer, CoreCall, FollowReason, PendingCall
from rollup_node.stages.engine.calls.engine_api import GetBlock, Unavailable
from rollup_node.stages.engine.calls.stimulus_log import StimulusLog
from rollup_node.stages.engine.process.call_runner import LINES_A_RECORD, CallRunner, stimuli_logged
from rollup_node.stages.engine.process.engine_client import UnreadableAnswerError
from rollup_node.stages.engine.process.neighbour_clients import FollowClientError
from rollup_node.stages.io.log.logger import Level, Record
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.control import OutputRequest
from rollup_node.stages.protocol.errors import (
    CriticalError,
    ForkMismatchError,
    HaltError,
    ResetError,
    RestartError,
    TemporaryError,
)

MOVING = PendingCall(1, CallPurpose.UNSAFE_BLOCK, GetBlock(1), 0, 0.0)
READING = PendingCall(2, CallPurpose.OUTPUT, OutputRequest(1, 1), 0, 0.0)


class Asker:
    """Answers each call when the test lets it, with None or an error; `due` are the calls after the next answer."""

    def __init__(self) -> None:
        self.wakes = 0
        self.events: list[object] = []
        self.due: list[PendingCall] = []
        self.settled: Exception | None = None
        self.gates: dict[CoreCall, asyncio.Future[None]] = {}
        self.runner = CallRunner(self.ask, self.take, self.settle, self.wake)

    def wake(self) -> None:
        self.wakes += 1

    def take(self, pending: PendingCall, answer: CoreAnswer) -> list[PendingCall]:
        self.events.append((pending, answer))
        due, self.due = self.due, []
        return due

    def settle(self) -> None:
        self.events.append("settled")
        if self.settled is not None:
            raise self.settled

    async def ask(self, call: CoreCall) -> CoreAnswer:
        self.events.append(call)
        gate = self.gates[call] = asyncio.get_running_loop().create_future()
        await gate
        return None

    async def start(self, *calls: PendingCall) -> None:
        for pending in calls:
            self.gates.pop(pending.call, None)
            self.runner.start(pending)
        while not all(pending.call in self.gates for pending in calls):
            await asyncio.sleep(0)
        self.events.clear()

    async def let(self, pending: PendingCall, error: Exception | None = None) -> list[object]:
        """Let a call be answered; what happened since then."""
        gate = self.gates[pending.call]
        if error is None:
            gate.set_result(None)
        else:
            gate.set_exception(error)
        wakes = self.wakes
        while "settled" not in self.events and self.wakes == wakes:
            await asyncio.sleep(0)
        events, self.events = self.events, []
        return events


async def test_calls_do_not_wait_for_each_other() -> None:
    asker = Asker()
    await asker.start(MOVING, READING)
    assert await asker.let(READING) == [(READING, None), "settled"]
    refused = Unavailable("connection refused")
    assert await asker.let(MOVING, TemporaryError("connection refused")) == [(MOVING, refused), "settled"]
    await asker.start(MOVING)
    unread = Unavailable("no transactions", unreadable=True)
    assert await asker.let(MOVING, UnreadableAnswerError("no transactions")) == [(MOVING, unread), "settled"]
    await asker.start(MOVING)
    away = Unavailable("no answer", False, Code.FOLLOW_UNREACHABLE, FollowReason.NO_ANSWER)
    error = FollowClientError(FollowReason.NO_ANSWER, "no answer")
    assert await asker.let(MOVING, error) == [(MOVING, away), "settled"]
    asker.runner.check()
    assert asker.wakes == 0


async def test_the_next_call_is_on_its_way_before_anything_else() -> None:
    """[ENG44] In the same turn of the event loop; what is due in another lane has a task of its own."""
    asker = Asker()
    await asker.start(MOVING)
    following = msgspec.structs.replace(MOVING, number=3, call=GetBlock(2))
    asker.due = [READING, following]
    assert await asker.let(MOVING) == [(MOVING, None), GetBlock(2), "settled"]
    while READING.call not in asker.gates:
        await asyncio.sleep(0)
    asker.events.clear()
    assert await asker.let(following) == [(following, None), "settled"]
    assert await asker.let(READING) == [(READING, None), "settled"]
    asker.due = [following]
    await asker.start(MOVING)
    asker.gates[MOVING.call].set_result(None)
    await asker.runner.close(0.01)
    assert asker.gates[following.call].cancelled()


@pytest.mark.parametrize("error", [ResetError("a contradiction"), ValueError("a bug")], ids=["reset", "bug"])
async def test_any_other_error_goes_on(error: Exception) -> None:
    """[ENG44] Also one of the actions after an answer, of which the call that was sent knows nothing."""
    asker = Asker()
    await asker.start(MOVING)
    await asker.let(MOVING, error)
    with pytest.raises(type(error)):
        asker.runner.check()
    asker.settled, asker.due = error, [msgspec.structs.replace(MOVING, call=GetBlock(2))]
    await asker.start(MOVING)
    await asker.let(MOVING)
    while asker.wakes < 2:
        await asyncio.sleep(0)
    with pytest.raises(type(error)):
        asker.runner.check()
    asker.runner.check()


async def test_the_end_waits_for_the_call_that_may_move_heads_alone() -> None:
    asker = Asker()
    await asker.start(MOVING, READING)
    closing = asyncio.create_task(asker.runner.close(60.0))
    await asyncio.sleep(0)
    assert await asker.let(MOVING) == [(MOVING, None), "settled"]
    await closing
    assert asker.gates[READING.call].cancelled()


async def test_the_end_does_not_wait_for_ever() -> None:
    asker = Asker()
    await asker.start(MOVING)
    await asker.runner.close(0.01)
    assert asker.gates[MOVING.call].cancelled() and asker.events == []


def filled(lines: int) -> StimulusLog:
    stimuli = StimulusLog()
    for number in range(lines):
        stimuli.add(1_000.0 + number, f"call {number}", "forkchoice")
    return stimuli


@pytest.mark.parametrize("error", [CriticalError("contradiction"), KeyError("bug")], ids=["critical", "bug"])
def test_all_lines_are_written_in_their_order(error: Exception, engine_log: list[Record]) -> None:
    stimuli = filled(2 * LINES_A_RECORD + 10)
    with pytest.raises(type(error)), stimuli_logged(stimuli):
        raise error
    assert [record.fields for record in engine_log] == [
        {"from": first, "of": len(stimuli)} for first in (0, LINES_A_RECORD, 2 * LINES_A_RECORD)
    ]
    assert "\n".join(record.traceback or "" for record in engine_log).split("\n") == stimuli.lines()
    assert all(record.level is Level.ERROR and len(record.traceback or "") < 16 << 10 for record in engine_log)


@pytest.mark.parametrize("error", [None, ForkMismatchError("other forks"), HaltError("too old"), RestartError("new")])
def test_without_an_error_or_for_one_whose_text_says_all_nothing_is_written(
    engine_log: list[Record], error: Exception | None
) -> None:
    with suppress(CriticalError), stimuli_logged(filled(10)):
        if error is not None:
            raise error
    assert engine_log == []
