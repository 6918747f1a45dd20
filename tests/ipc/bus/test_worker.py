"""Which tasks a worker runs, reports and drops."""

from collections.abc import Callable, Iterator

import msgspec
import pytest

from rollup_node.ipc.bus.task_scheduler import ELSEWHERE
from rollup_node.ipc.bus.transport import Transport
from rollup_node.ipc.bus.worker import MAX_QUEUED, TaskSource, Worker
from rollup_node.ipc.shared_memory.liveness import LivenessTable
from rollup_node.ipc.wire.codec import Envelope, TaskRejected, WorkerReport, encode_header
from rollup_node.ipc.wire.process_id import ProcessId
from tests.ipc.messages import OTHER_WORK, WORK, SquareResult, SquareTask
from tests.ipc.recording_socket import RecordingSocket

FIRST, SECOND, ME = 0, 1, ProcessId(2, 1)


class WorkerHarness:
    """A worker of two dispatchers, in slots FIRST and SECOND, with recording sockets."""

    def __init__(self, liveness: LivenessTable) -> None:
        self.liveness = liveness
        self.transport = Transport(ME, liveness, {})
        self.ran: list[tuple[str, int]] = []
        self.sockets = (RecordingSocket(), RecordingSocket())
        self.sources = [self.source(slot, name, self.handler(name)) for slot, name in enumerate((WORK, OTHER_WORK))]
        self.worker = Worker([[source] for source in self.sources])

    def source(self, slot: int, name: str, handler: Callable[[SquareTask], SquareResult]) -> TaskSource:
        return TaskSource(name, self.sockets[slot], self.transport, slot, SquareTask, SquareResult, handler)

    def handler(self, name: str) -> Callable[[SquareTask], SquareResult]:
        def run(task: SquareTask) -> SquareResult:
            self.ran.append((name, task.number))
            assert self.liveness.task_of(ME.slot) == (WORK, OTHER_WORK).index(name)
            return SquareResult(task.number)

        return run

    def assign(self, slot: int, number: int, incarnation: int = 1, body: bytes | None = None) -> None:
        """A task arrives from the dispatcher in `slot`."""
        payload = msgspec.msgpack.encode(SquareTask(number)) if body is None else body
        self.sources[slot].on_message([encode_header(Envelope(slot, incarnation, number, 1, None)), payload])


@pytest.fixture
def harness() -> Iterator[WorkerHarness]:
    liveness = LivenessTable(3)
    for slot in range(3):
        liveness.start(slot, 1)
    yield WorkerHarness(liveness)
    liveness.close()


def test_the_first_channel_is_served_first_one_task_at_a_time(harness: WorkerHarness) -> None:
    for number in (1, 2):
        harness.assign(SECOND, number)
        harness.assign(FIRST, number)
    assert harness.worker.receive()
    assert harness.ran == [(WORK, 1)]
    while harness.worker.receive():
        pass
    assert harness.ran == [(WORK, 1), (WORK, 2), (OTHER_WORK, 1), (OTHER_WORK, 2)]
    assert harness.liveness.task_of(ME.slot) is None


def test_the_whole_state_is_reported_before_each_task(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 10.0)
    first, second = harness.sockets
    harness.assign(FIRST, 1)
    harness.assign(FIRST, 2)
    harness.assign(SECOND, 7)
    harness.worker.receive()
    assert first.headers == [WorkerReport(*ME, 1, ((1, 1), (2, 1))), Envelope(*ME, 1, 1, None)]
    assert second.headers == [WorkerReport(*ME, ELSEWHERE, ((7, 1),))]
    harness.worker.receive()
    assert first.headers[2:] == [WorkerReport(*ME, 2, ((2, 1),)), Envelope(*ME, 2, 1, None)]
    assert len(second.headers) == 1, "its state is the same"
    harness.worker.receive()
    harness.worker.receive()
    assert first.headers[4:] == [WorkerReport(*ME, ELSEWHERE, ()), WorkerReport(*ME, None, ())]
    assert second.headers[-1] == WorkerReport(*ME, None, ())


def test_a_report_is_repeated_every_second_and_rarely_once_nothing_changes(harness: WorkerHarness) -> None:
    def reports(*times: float) -> int:
        before = len(harness.sockets[FIRST].sent)
        for now in times:
            harness.sources[FIRST].report(None, now)
        return len(harness.sockets[FIRST].sent) - before

    assert reports(10.0, 10.2, 11.05, 11.7, 12.0) == 3
    assert reports(*range(13, 31)) == 5, "at 13, 14, 15, 20 and 30"
    harness.liveness.start(FIRST, 2)
    assert reports(*range(31, 34)) == 3, "a new dispatcher knows no worker"


def test_a_report_that_could_not_be_sent_is_repeated_at_once(harness: WorkerHarness) -> None:
    socket = harness.sockets[FIRST]
    socket.works = False
    harness.sources[FIRST].report(None, 10.0)
    socket.works = True
    harness.sources[FIRST].report(None, 10.01)
    assert len(socket.sent) == 1


def test_a_task_that_arrives_twice_runs_once(harness: WorkerHarness) -> None:
    harness.assign(FIRST, 1)
    harness.assign(FIRST, 1)
    while harness.worker.receive():
        pass
    assert harness.ran == [(WORK, 1)]


def test_a_malformed_task_is_rejected(harness: WorkerHarness) -> None:
    harness.assign(FIRST, 1, body=b"\xc1")
    harness.worker.receive()
    rejected = harness.sockets[FIRST].headers[-1]
    assert isinstance(rejected, TaskRejected) and rejected.number == 1 and "malformed message" in rejected.reason
    assert harness.ran == [] and harness.transport.counters["messages_refused"] == 1
    assert not harness.worker.receive()


def test_the_queue_is_bounded(harness: WorkerHarness) -> None:
    for number in range(MAX_QUEUED + 4):
        harness.assign(FIRST, number)
    assert len(harness.sources[FIRST].tasks) == MAX_QUEUED and harness.transport.counters["messages_refused"] == 4


def test_tasks_of_a_replaced_dispatcher_are_dropped(harness: WorkerHarness) -> None:
    harness.assign(FIRST, 1)
    harness.liveness.start(FIRST, 2)
    harness.assign(FIRST, 2, incarnation=2)
    assert list(harness.sources[FIRST].tasks) == [2]
    harness.assign(FIRST, 3, incarnation=1)
    assert harness.transport.counters["messages_stale"] == 1
    harness.liveness.start(FIRST, 3)
    assert not harness.worker.receive()
    assert harness.ran == []


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b"x"],
        [b"x", b"y"],
        [b"x", b"y", b"z"],
        [encode_header(WorkerReport(FIRST, 1, None, ())), b""],
        [encode_header(Envelope(SECOND, 1, 1, 1, None)), b""],
        [encode_header(Envelope(FIRST, 2, 1, 1, None)), b""],
    ],
    ids=["none", "one", "random", "three", "report", "other slot", "future"],
)
def test_malformed_messages_are_rejected(harness: WorkerHarness, frames: list[bytes]) -> None:
    harness.sources[FIRST].on_message(frames)
    assert harness.transport.counters["messages_refused"] == 1 and not harness.sources[FIRST].tasks


def test_dispatchers_of_one_rank_take_turns(harness: WorkerHarness) -> None:
    """[LIF33]"""
    worker = Worker([harness.sources])
    for number in (1, 2, 3):
        harness.assign(FIRST, number)
    assert worker.receive()
    for number in (1, 2):
        harness.assign(SECOND, number)
    while worker.receive():
        pass
    assert harness.ran == [(WORK, 1), (OTHER_WORK, 1), (WORK, 2), (OTHER_WORK, 2), (WORK, 3)]


def test_an_exception_of_a_handler_is_a_bug_and_propagates(harness: WorkerHarness) -> None:
    def broken(task: SquareTask) -> SquareResult:
        raise RuntimeError("bug")

    harness.sources[FIRST] = harness.source(FIRST, WORK, broken)
    harness.assign(FIRST, 1)
    with pytest.raises(RuntimeError, match="bug"):
        Worker([harness.sources]).receive()


def test_the_next_report_is_aligned(harness: WorkerHarness) -> None:
    assert [harness.worker.tick(now) for now in (10.0, 10.3, 11.0)] == [11.0, 11.0, 12.0]
