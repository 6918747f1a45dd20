"""The working side of WORK channels: one task at a time, those of the first channel before those of the second.

A worker reports its whole state to each dispatcher when it or the dispatcher changes, then every second for a while,
and rarely while nothing happens: so a lost message is repaired, and a restarted dispatcher discovers its workers. It
receives before it reports, so that tasks which arrived during a long one are not reported missing."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from rollup_node.ipc.bus.task_scheduler import ELSEWHERE
from rollup_node.ipc.bus.timers import aligned_deadline
from rollup_node.ipc.bus.transport import Transport, split_frames
from rollup_node.ipc.wire import codec
from rollup_node.ipc.wire.sockets import ChannelSocket

REPORT_SECONDS, SETTLED_SECONDS, IDLE_SECONDS = 1.0, 5.0, 10.0
"""Between two reports of a state, for how long after a change, and from then on."""
MAX_QUEUED = 16
MAX_REASON = 500


class TaskSource:
    """One WORK channel of a worker: `tasks` are those assigned, in order, each id with attempt and payload.

    `dispatcher` is the slot of the dispatcher, `handler` a pure function task -> result."""

    def __init__(
        self,
        name: str,
        socket: ChannelSocket,
        transport: Transport,
        dispatcher: int,
        down: Any,
        up: Any,
        handler: Callable[[Any], Any],
    ) -> None:
        self.socket = socket
        self.tasks: dict[int, tuple[int, bytes]] = {}
        self._name, self._transport, self._dispatcher, self._handler = name, transport, dispatcher, handler
        self._down, self._up = codec.codec_of(down), codec.codec_of(up)
        self._incarnation = 0
        self._state: object = None
        self._changed_at = self._due = 0.0

    def on_message(self, frames: list[bytes]) -> None:
        """Queue the task in a message from the dispatcher."""
        try:
            header, payload = split_frames(frames)
            self._queue(header, payload)
        except codec.UnusableMessage as error:
            self._transport.count_dropped(self._name, error)

    def _queue(self, header: codec.MessageHeader, payload: bytes) -> None:
        if not isinstance(header, codec.Envelope):
            raise codec.MessageRejected(f"a {type(header).__name__} from a dispatcher")
        dispatcher = self._transport.check_sender(header, (self._dispatcher,))
        if dispatcher.incarnation != self._incarnation:
            self._incarnation, self.tasks = dispatcher.incarnation, {}
        if len(self.tasks) >= MAX_QUEUED:
            raise codec.MessageRejected(f"more than {MAX_QUEUED} tasks at once")
        self.tasks[header.number] = (header.attempt, self._transport.payload(header, payload))

    def drop_stale_tasks(self) -> None:
        """Drop the tasks of a dispatcher that has been replaced."""
        if self.tasks and self._incarnation != self._transport.liveness.incarnation(self._dispatcher):
            self.tasks = {}

    def run_next(self) -> None:
        """Run the oldest task and send its result, or a rejection if the task is malformed."""
        number = next(iter(self.tasks))
        attempt, payload = self.tasks[number]
        try:
            task = self._down.decode(payload)
        except codec.MessageRejected as error:
            self._transport.count_dropped(self._name, error)
            del self.tasks[number]
            rejected = codec.TaskRejected(*self._transport.process_id, number, str(error)[:MAX_REASON])
            self.socket.send([codec.encode_header(rejected), b""])
            return
        # A large task is in memory once while it runs.
        self.tasks[number], payload = (attempt, b""), b""
        liveness, slot = self._transport.liveness, self._transport.process_id.slot
        liveness.set_task_of(slot, self._dispatcher)
        result = self._up.encode(self._handler(task))
        liveness.set_task_of(slot, None)
        del self.tasks[number]
        self._transport.send(self.socket, (), self._dispatcher, result, number=number, attempt=attempt)

    def report(self, running: int | None, now: float) -> None:
        """Report the tasks held and the one running, if that or the dispatcher has changed or a report is due."""
        held = tuple((number, attempt) for number, (attempt, _) in self.tasks.items())
        state = running, held, self._transport.liveness.incarnation(self._dispatcher)
        if state != self._state:
            self._state, self._changed_at, self._due = state, now, now
        if now < self._due:
            return
        report = codec.WorkerReport(*self._transport.process_id, running, held)
        if self.socket.send([codec.encode_header(report), b""]):
            settled = now - self._changed_at >= SETTLED_SECONDS
            self._due = aligned_deadline(now, IDLE_SECONDS if settled else REPORT_SECONDS)


class Worker:
    """All WORK channels of a worker process: `ranks` of sources in order of priority, which take turns within one."""

    def __init__(self, ranks: Sequence[Sequence[TaskSource]]) -> None:
        self.ranks = [deque(sources) for sources in ranks]
        self._sources = [source for sources in ranks for source in sources]
        self.sockets = tuple(source.socket for source in self._sources)

    def receive(self) -> bool:
        """Queue the waiting tasks and run at most one; True when it ran one, so that there may be more."""
        for source in self._sources:
            source.socket.receive(source.on_message)
            source.drop_stale_tasks()
        chosen = self._choose()
        self._report(chosen)
        if chosen is None:
            return False
        chosen.run_next()
        return True

    def _choose(self) -> TaskSource | None:
        """Return the source to run a task of, which is the last of its rank from now on."""
        for sources in self.ranks:
            for source in sources:
                if source.tasks:
                    sources.remove(source)
                    sources.append(source)
                    return source
        return None

    def tick(self, now: float) -> float:
        """Return the time of the next report, which `receive` sends."""
        return aligned_deadline(now, REPORT_SECONDS)

    def _report(self, chosen: TaskSource | None) -> None:
        now = time.monotonic()
        for source in self._sources:
            if source is chosen:
                source.report(next(iter(source.tasks)), now)
            else:
                source.report(None if chosen is None else ELSEWHERE, now)
