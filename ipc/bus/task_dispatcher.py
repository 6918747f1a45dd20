"""The dispatching side of a WORK channel: the task scheduler with its ROUTER socket."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from rollup_node.ipc.bus.task_scheduler import TaskScheduler
from rollup_node.ipc.bus.timers import aligned_deadline
from rollup_node.ipc.bus.transport import Transport, split_routed_frames
from rollup_node.ipc.wire.codec import Envelope, MessageRejected, UnusableMessage, WorkerReport, codec_of
from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.ipc.wire.sockets import ChannelSocket

TICK_SECONDS, IDLE_SECONDS = 0.5, 1.0
"""Between two looks for dead workers, while there are tasks and while there are none."""


class TaskFailed(Exception):
    """A task has no result, for the reason in the text: workers died of it, or none can run it."""


class TaskDispatcher:
    """Runs tasks on the workers that report to it."""

    def __init__(
        self, name: str, socket: ChannelSocket, transport: Transport, workers: Sequence[int], down: Any, up: Any
    ) -> None:
        self.sockets = (socket,)
        self.scheduler = TaskScheduler(transport.process_id.incarnation, transport.counters)
        self._name, self._socket, self._transport, self._workers = name, socket, transport, workers
        self._down, self._up = codec_of(down), codec_of(up)
        self._futures: dict[int, asyncio.Future[Any]] = {}
        self._due = 0.0

    async def run(self, task: Any) -> Any:
        """Return the result of `task` from some worker. Raises TaskFailed when there is none. May be cancelled."""
        body = self._down.encode(task)
        del task  # which may hold megabytes that the body has as well
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        number = self.scheduler.submit(body, time.monotonic())
        self._futures[number] = future
        self._flush()
        try:
            return await future
        finally:
            del self._futures[number]
            self.scheduler.cancel(number)

    def receive(self) -> bool:
        """Handle reports and results; True when there may be more."""
        more = self._socket.receive(self._on_message)
        self._flush()
        return more

    def tick(self, now: float) -> float:
        """Check for dead workers and for tasks that take too long; returns the time of the next check."""
        if now >= self._due:
            self._due = aligned_deadline(now, TICK_SECONDS if self._futures else IDLE_SECONDS)
            for slot in {worker.slot for worker in self.scheduler.workers}:
                self.scheduler.worker_died(slot, self._transport.liveness.incarnation(slot), now)
            self.scheduler.tick(now)
            self._flush()
        return self._due

    def _on_message(self, frames: list[bytes]) -> None:
        try:
            header, payload = split_routed_frames(frames)
            if isinstance(header, Envelope):
                self._on_result(header, payload)
                return
            worker = self._transport.check_sender(header, self._workers)
        except UnusableMessage as error:
            self._transport.count_dropped(self._name, error)
            return
        now = time.monotonic()
        if isinstance(header, WorkerReport):
            self.scheduler.worker_report(worker, frozenset(header.held), header.running, now)
        else:
            self.scheduler.task_rejected(header.number, header.reason, now)

    def _on_result(self, header: Envelope, payload: bytes) -> None:
        try:
            result = self._transport.receive(header, payload, self._up, self._workers).message
        except MessageRejected:
            worker = ProcessId(header.slot, header.incarnation)
            self.scheduler.result_rejected(worker, header.number, time.monotonic())
            raise
        self.scheduler.task_result(header.number, result, time.monotonic())

    def _flush(self) -> None:
        while assignments := self.scheduler.take_assignments():
            for worker, number, attempt, body in assignments:
                route = [worker.routing_id()]
                if not self._transport.send(self._socket, route, worker.slot, body, number=number, attempt=attempt):
                    self.scheduler.unreachable(worker, time.monotonic())
        for number, result, failure in self.scheduler.take_completed():
            future = self._futures.get(number)
            if future is not None and not future.done():
                if failure is None:
                    future.set_result(result)
                else:
                    future.set_exception(TaskFailed(failure))
