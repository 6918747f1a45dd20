"""The dispatching side of a WORK channel: the pure dispatcher with its ROUTER socket."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from rollup_node.ipc.bus.dispatch import Dispatcher
from rollup_node.ipc.bus.timers import aligned_deadline
from rollup_node.ipc.bus.transport import Transport, split_routed
from rollup_node.ipc.wire.codec import Codec, Envelope, MessageRejected, Report, UnusableMessage
from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.ipc.wire.sockets import Link

TICK_SECONDS = 0.5


class TaskFailed(Exception):
    """A task ended without a result: workers died of it, or none can run it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class WorkerPool:
    """Runs tasks on whatever workers report themselves."""

    def __init__(self, name: str, link: Link, courier: Transport, workers: Sequence[int], down: Any, up: Any) -> None:
        self.links = (link,)
        self.dispatcher = Dispatcher(courier.me.incarnation, courier.counters)
        self._name, self._link, self._courier, self._rows = name, link, courier, workers
        self._down, self._up = Codec(down), Codec(up)
        self._futures: dict[int, asyncio.Future[Any]] = {}
        self._due = 0.0

    async def run(self, task: Any) -> Any:
        """The result of `task` from some worker; TaskFailed when there is none. May be cancelled."""
        body = self._down.encode(task)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        number = self.dispatcher.submit(body, time.monotonic())
        self._futures[number] = future
        self._flush()
        try:
            return await future
        finally:
            del self._futures[number]
            self.dispatcher.cancel(number)

    def drain(self) -> bool:
        """Handles reports and results."""
        more = self._link.drain(self._take)
        self._flush()
        return more

    def tick(self, now: float) -> float:
        """Looks for deaths on the board and for tasks that take too long."""
        if now >= self._due:
            self._due = aligned_deadline(now, TICK_SECONDS)
            for row in {worker.row for worker in self.dispatcher.workers}:
                self.dispatcher.died(row, self._courier.board.incarnation(row), now)
            self.dispatcher.tick(now)
            self._flush()
        return self._due

    def _take(self, frames: list[bytes]) -> None:
        try:
            head, payload = split_routed(frames)
            if isinstance(head, Envelope):
                self._take_result(head, payload)
                return
            worker = self._courier.check_sender(head, self._rows)
        except UnusableMessage as problem:
            self._courier.count(self._name, problem)
            return
        if isinstance(head, Report):
            self.dispatcher.report(worker, frozenset(head.holds), head.running, time.monotonic())
        else:
            self.dispatcher.failed(head.number, head.reason, time.monotonic())

    def _take_result(self, head: Envelope, payload: bytes) -> None:
        try:
            value = self._courier.open(head, payload, self._up, self._rows).message
        except MessageRejected:
            self.dispatcher.spoiled(ProcessId(head.row, head.incarnation), head.number, time.monotonic())
            raise
        self.dispatcher.result(head.number, value, time.monotonic())

    def _flush(self) -> None:
        while sends := self.dispatcher.take_sends():
            for worker, number, attempt, body in sends:
                route = [worker.identity()]
                if not self._courier.post(self._link, route, worker.row, body, number=number, attempt=attempt):
                    self.dispatcher.unreachable(worker, time.monotonic())
        for number, value, failure in self.dispatcher.take_done():
            future = self._futures.get(number)
            if future is not None and not future.done():
                _settle(future, value, failure)


def _settle(future: asyncio.Future[Any], value: Any, failure: str | None) -> None:
    if failure is None:
        future.set_result(value)
    else:
        future.set_exception(TaskFailed(failure))
