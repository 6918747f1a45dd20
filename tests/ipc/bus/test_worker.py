"""What a worker runs, reports and drops."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from rollup_node.ipc.bus.bus import Bus
from rollup_node.ipc.bus.channels import Channel, Pattern
from rollup_node.ipc.bus.dispatch import ELSEWHERE
from rollup_node.ipc.bus.worker import MAX_QUEUED, Source, Worker
from rollup_node.ipc.shared_memory.liveness import LivenessTable
from rollup_node.ipc.wire.codec import Envelope, Failure, Head, Report, decode_head, encode_head


class Job(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int


class Done(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int


CHANNELS = (
    Channel("work.first", Pattern.WORK, "first", ("hand",), down=Job, up=Done),
    Channel("work.second", Pattern.WORK, "second", ("hand",), down=Job, up=Done),
)
FIRST, SECOND, HAND = 0, 1, 2


class Bench:
    """A worker whose sockets are replaced by lists."""

    def __init__(self, bus: Bus) -> None:
        self.ran: list[tuple[str, int]] = []
        self.worker: Worker = bus.work({name: self.handler(name) for name in ("work.first", "work.second")})
        self.board: LivenessTable = bus._courier.board
        self.bus = bus
        self.sent: list[list[Head]] = [[], []]
        for source, sent in zip(self.worker._sources, self.sent, strict=True):
            source.link.send = self.sender(sent)  # type: ignore[method-assign]

    def handler(self, name: str) -> Callable[[Job], Done]:
        def run(job: Job) -> Done:
            self.ran.append((name, job.number))
            return Done(job.number)

        return run

    def sender(self, sent: list[Head]) -> Callable[[list[bytes]], bool]:
        def send(frames: list[bytes]) -> bool:
            sent.append(decode_head(frames[0]))
            return True

        return send

    def source(self, row: int) -> Source:
        return self.worker._sources[row]

    def give(self, row: int, number: int, incarnation: int = 1, body: bytes | None = None) -> None:
        payload = msgspec.msgpack.encode(Job(number)) if body is None else body
        self.source(row).take([encode_head(Envelope(row, incarnation, number, 1, None)), payload])


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    buses = Bus.for_test(CHANNELS, tmp_path, {"first": 1, "second": 1, "hand": 1})
    yield Bench(buses["hand"])
    for bus in buses.values():
        bus.close()


def test_the_first_channel_is_served_first_one_task_at_a_time(bench: Bench) -> None:
    for number in (1, 2):
        bench.give(SECOND, number)
        bench.give(FIRST, number)
    assert bench.worker.drain()
    assert bench.ran == [("work.first", 1)]
    while bench.worker.drain():
        pass
    assert bench.ran == [("work.first", 1), ("work.first", 2), ("work.second", 1), ("work.second", 2)]


def test_the_whole_state_is_reported_before_each_task(bench: Bench) -> None:
    bench.give(FIRST, 1)
    bench.give(FIRST, 2)
    bench.give(SECOND, 7)
    bench.worker.drain()
    assert bench.sent[FIRST] == [Report(HAND, 1, 1, ((1, 1), (2, 1))), Envelope(HAND, 1, 1, 1, None)]
    assert bench.sent[SECOND] == [Report(HAND, 1, ELSEWHERE, ((7, 1),))]
    bench.worker.drain()
    assert bench.sent[FIRST][2:] == [Report(HAND, 1, 2, ((2, 1),)), Envelope(HAND, 1, 2, 1, None)]
    assert len(bench.sent[SECOND]) == 1, "no news"
    bench.worker.drain()
    bench.worker.drain()
    assert bench.sent[FIRST][4:] == [Report(HAND, 1, ELSEWHERE, ()), Report(HAND, 1, None, ())]
    assert bench.sent[SECOND][-1] == Report(HAND, 1, None, ())


def test_a_report_is_repeated_after_a_while(bench: Bench) -> None:
    source = bench.source(FIRST)
    for now in (10.0, 10.2, 10.55, 10.7, 11.0):
        source.report(None, now)
    assert len(bench.sent[FIRST]) == 3


def test_a_report_that_did_not_go_out_is_tried_again_at_once(bench: Bench) -> None:
    source = bench.source(FIRST)
    send, source.link.send = source.link.send, lambda frames: False  # type: ignore[method-assign]
    source.report(None, 10.0)
    source.link.send = send  # type: ignore[method-assign]
    source.report(None, 10.01)
    assert len(bench.sent[FIRST]) == 1


def test_the_same_task_given_again_is_one_task(bench: Bench) -> None:
    bench.give(FIRST, 1)
    bench.give(FIRST, 1)
    while bench.worker.drain():
        pass
    assert bench.ran == [("work.first", 1)]


def test_what_is_no_task_is_answered_with_a_failure(bench: Bench) -> None:
    bench.give(FIRST, 1, body=b"\xc1")
    bench.worker.drain()
    failure = bench.sent[FIRST][-1]
    assert isinstance(failure, Failure) and failure.number == 1 and "malformed message" in failure.reason
    assert bench.ran == [] and bench.bus.counters["messages_refused"] == 1
    assert not bench.worker.drain()


def test_a_flood_is_refused(bench: Bench) -> None:
    for number in range(MAX_QUEUED + 4):
        bench.give(FIRST, number)
    assert len(bench.source(FIRST).tasks) == MAX_QUEUED and bench.bus.counters["messages_refused"] == 4


def test_what_a_dead_dispatcher_gave_is_dropped(bench: Bench) -> None:
    bench.give(FIRST, 1)
    bench.board.start(FIRST, 2)
    bench.give(FIRST, 2, incarnation=2)
    assert list(bench.source(FIRST).tasks) == [2]
    bench.give(FIRST, 3, incarnation=1)
    assert bench.bus.counters["messages_stale"] == 1
    bench.board.start(FIRST, 3)
    assert not bench.worker.drain()
    assert bench.ran == []


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b"x"],
        [b"x", b"y"],
        [b"x", b"y", b"z"],
        [encode_head(Report(FIRST, 1, None, ())), b""],
        [encode_head(Envelope(SECOND, 1, 1, 1, None)), b""],
        [encode_head(Envelope(FIRST, 2, 1, 1, None)), b""],
    ],
    ids=["none", "one", "random", "three", "report", "other row", "future"],
)
def test_what_is_no_message_is_refused(bench: Bench, frames: list[bytes]) -> None:
    bench.source(FIRST).take(frames)
    assert bench.bus.counters["messages_refused"] == 1 and not bench.source(FIRST).tasks


def test_an_error_of_a_handler_is_a_bug_and_comes_out(bench: Bench) -> None:
    def broken(job: Job) -> Done:
        raise RuntimeError("bug")

    bench.source(FIRST)._handler = broken
    bench.give(FIRST, 1)
    with pytest.raises(RuntimeError, match="bug"):
        bench.worker.drain()
