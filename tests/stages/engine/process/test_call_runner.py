"""Calls in tasks of their own: answers, errors, and the end of the process."""

import asyncio
from contextlib import suppress

import pytest

from rollup_node.stages.engine.calls.calls import CallPurpose, CoreAnswer, CoreCall, PendingCall
from rollup_node.stages.engine.calls.engine_api import GetBlock, Unavailable
from rollup_node.stages.engine.calls.stimulus_log import StimulusLog
from rollup_node.stages.engine.process.call_runner import LINES_A_RECORD, CallRunner, stimuli_logged
from rollup_node.stages.engine.process.engine_client import UnreadableAnswerError
from rollup_node.stages.io.log.logger import Level, Record
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
    """Answers each call when the test lets it, with None or an error."""

    def __init__(self) -> None:
        self.wakes = 0
        self.gates: dict[CoreCall, asyncio.Future[None]] = {}
        self.runner = CallRunner(self.ask, self.wake)

    def wake(self) -> None:
        self.wakes += 1

    async def ask(self, call: CoreCall) -> CoreAnswer:
        self.gates[call] = asyncio.get_running_loop().create_future()
        await self.gates[call]
        return None

    async def start(self, *calls: PendingCall) -> None:
        for pending in calls:
            self.runner.start(pending)
        while len(self.gates) < len(calls):
            await asyncio.sleep(0)

    async def let(self, pending: PendingCall, error: Exception | None = None) -> None:
        """Lets a call be answered."""
        wakes, gate = self.wakes, self.gates[pending.call]
        if error is None:
            gate.set_result(None)
        else:
            gate.set_exception(error)
        while self.wakes == wakes:
            await asyncio.sleep(0)


async def test_calls_do_not_wait_for_each_other() -> None:
    asker = Asker()
    await asker.start(MOVING, READING)
    assert asker.runner.answers() == []
    await asker.let(READING)
    assert asker.runner.answers() == [(READING, None)] and asker.runner.answers() == []
    await asker.let(MOVING, TemporaryError("connection refused"))
    assert asker.runner.answers() == [(MOVING, Unavailable("connection refused"))]
    asker.gates.clear()
    await asker.start(MOVING)
    await asker.let(MOVING, UnreadableAnswerError("no transactions"))
    assert asker.runner.answers() == [(MOVING, Unavailable("no transactions", unreadable=True))]


@pytest.mark.parametrize("error", [ResetError("a contradiction"), ValueError("a bug")], ids=["reset", "bug"])
async def test_any_other_error_goes_on(error: Exception) -> None:
    asker = Asker()
    await asker.start(MOVING)
    await asker.let(MOVING, error)
    with pytest.raises(type(error)):
        asker.runner.answers()


async def test_the_end_waits_for_the_call_that_may_move_heads_alone() -> None:
    asker = Asker()
    await asker.start(MOVING, READING)
    closing = asyncio.create_task(asker.runner.close(60.0))
    await asyncio.sleep(0)
    await asker.let(MOVING)
    await closing
    assert asker.runner.answers() == [(MOVING, None)]
    assert asker.gates[READING.call].cancelled()


async def test_the_end_does_not_wait_for_ever() -> None:
    asker = Asker()
    await asker.start(MOVING)
    await asker.runner.close(0.01)
    assert asker.gates[MOVING.call].cancelled() and asker.runner.answers() == []


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
