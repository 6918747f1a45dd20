"""The working side of WORK channels: one task at a time, the first channel's before the second's.

A worker tells each dispatcher its whole state whenever it changes and every 0.5 s, so a lost message heals and a
restarted dispatcher learns of its workers by itself. It looks at its mail before it reports, so that what was sent
during a long task is not reported missing."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from rollup_node.ipc.bus.dispatch import ELSEWHERE
from rollup_node.ipc.bus.timers import aligned_deadline
from rollup_node.ipc.bus.transport import Transport, split
from rollup_node.ipc.wire.codec import Codec, Envelope, Failure, MessageRejected, Report, UnusableMessage, encode_head
from rollup_node.ipc.wire.sockets import Link

REPORT_SECONDS = 0.5
MAX_QUEUED = 16


class Source:
    """One WORK channel as a worker sees it: the tasks that its dispatcher has given, in order."""

    def __init__(
        self,
        name: str,
        link: Link,
        courier: Transport,
        dispatcher: int,
        down: Any,
        up: Any,
        handler: Callable[[Any], Any],
    ) -> None:
        self.link = link
        self.tasks: dict[int, tuple[int, bytes]] = {}
        self._name, self._courier, self._dispatcher, self._handler = name, courier, dispatcher, handler
        self._down, self._up = Codec(down), Codec(up)
        self._giver = 0
        self._reported: tuple[object, float] = (None, 0.0)

    def take(self, frames: list[bytes]) -> None:
        """A message from the dispatcher: a task for the queue."""
        try:
            head, payload = split(frames)
            self._take_task(head, payload)
        except UnusableMessage as problem:
            self._courier.count(self._name, problem)

    def _take_task(self, head: Envelope | Report | Failure, payload: bytes) -> None:
        if not isinstance(head, Envelope):
            raise MessageRejected(f"a {type(head).__name__} from a dispatcher")
        giver = self._courier.check_sender(head, (self._dispatcher,))
        if giver.incarnation != self._giver:
            self._giver, self.tasks = giver.incarnation, {}
        if len(self.tasks) >= MAX_QUEUED:
            raise MessageRejected(f"more than {MAX_QUEUED} tasks given at once")
        self.tasks[head.number] = (head.attempt, self._courier.fetch(head, payload))

    def forget_dead(self) -> None:
        """Drops what a dispatcher gave that has been replaced since."""
        if self.tasks and self._giver != self._courier.board.incarnation(self._dispatcher):
            self.tasks = {}

    def run_next(self) -> None:
        """Runs the oldest task and sends its result, or says that it is none."""
        number = next(iter(self.tasks))
        attempt, payload = self.tasks[number]
        me = self._courier.me
        try:
            task = self._down.decode(payload)
        except MessageRejected as problem:
            self._courier.count(self._name, problem)
            del self.tasks[number]
            self.link.send([encode_head(Failure(me.row, me.incarnation, number, str(problem)[:500])), b""])
            return
        result = self._up.encode(self._handler(task))
        del self.tasks[number]
        self._courier.post(self.link, (), self._dispatcher, result, number=number, attempt=attempt)

    def report(self, running: int | None, now: float) -> None:
        """Tells the dispatcher what is in hand, when that is news or has not been said for a while."""
        holds = tuple((number, attempt) for number, (attempt, _) in self.tasks.items())
        said, when = self._reported
        if said != (running, holds) or now >= aligned_deadline(when, REPORT_SECONDS):
            me = self._courier.me
            if self.link.send([encode_head(Report(me.row, me.incarnation, running, holds)), b""]):
                self._reported = ((running, holds), now)


class Worker:
    """All WORK channels of a worker process, in order of priority."""

    def __init__(self, courier: Transport, sources: Sequence[Source]) -> None:
        self.links = tuple(source.link for source in sources)
        self._courier, self._sources = courier, sources

    def drain(self) -> bool:
        """Takes in what has come, runs at most one task; True when there is more to do."""
        for source in self._sources:
            source.link.drain(source.take)
            source.forget_dead()
        chosen = next((source for source in self._sources if source.tasks), None)
        self._report(chosen)
        if chosen is None:
            return False
        chosen.run_next()
        return True

    def tick(self, now: float) -> float:
        """Repeats the reports; they are due again soon."""
        return aligned_deadline(now, REPORT_SECONDS)

    def _report(self, chosen: Source | None) -> None:
        now = time.monotonic()
        for source in self._sources:
            if source is chosen:
                source.report(next(iter(source.tasks)), now)
            else:
                source.report(None if chosen is None else ELSEWHERE, now)
