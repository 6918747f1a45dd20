"""Decoding of channels by compute workers, ahead of need where possible."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

from rollup_node.ipc.bus.task_dispatcher import TaskFailed
from rollup_node.stages.derivation.codec.batches import batch_memory
from rollup_node.stages.derivation.pipeline.outputs import NeedDecoded
from rollup_node.stages.derivation.tasks import DecodeChannel, DecodedChannel, run
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.task import cancel_all
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.bounded_cache import BoundedCache

log = Logger("derivation")

MAX_CACHED_BYTES = 32 << 20
MAX_RUNNING = 8
"""Tasks that are prefetched at the same time."""
MAX_QUEUED = 256


_RESULT_OVERHEAD = 500


class TaskPool(Protocol):
    """Runs a task elsewhere; raises TaskFailed when workers failed too often."""

    async def run(self, task: DecodeChannel) -> Any: ...


class DecodingClient:
    """The results that are cached, and the tasks that run or wait in a queue. `wake` is called on each result."""

    def __init__(self, pool: TaskPool, wake: Callable[[], None]) -> None:
        self._pool, self._wake = pool, wake
        self._cache: BoundedCache[bytes, DecodedChannel] = BoundedCache(MAX_CACHED_BYTES)
        self._running: dict[bytes, asyncio.Task[None]] = {}
        self._queued: OrderedDict[bytes, NeedDecoded] = OrderedDict()

    def result(self, need: NeedDecoded) -> DecodedChannel | None:
        """Return the result if it is there; otherwise its task is started."""
        result = self._cache.get(need.key)
        if result is None:
            self._queued.pop(need.key, None)
            if need.key not in self._running:
                self._start(need)
        return result

    def known(self, key: bytes) -> DecodedChannel | None:
        """Return the result of a task, if it is cached; no use of it."""
        return self._cache.peek(key)

    def prefetch(self, need: NeedDecoded) -> None:
        """Start or queue the task of a channel that will probably be needed."""
        if need.key in self._cache or need.key in self._running:
            return
        if len(self._queued) < MAX_QUEUED:
            self._queued[need.key] = need
        self._start_queued()

    @property
    def outstanding(self) -> int:
        """How many tasks run or are queued."""
        return len(self._running) + len(self._queued)

    def clear_queue(self) -> None:
        """Discard queued prefetches: the channels are no longer expected."""
        self._queued.clear()

    async def close(self) -> None:
        """Cancel the running tasks."""
        await cancel_all(self._running.values())

    def _start_queued(self) -> None:
        while self._queued and len(self._running) < MAX_RUNNING:
            _, need = self._queued.popitem(last=False)
            self._start(need)

    def _start(self, need: NeedDecoded) -> None:
        self._running[need.key] = asyncio.create_task(self._run(need), name="decode a channel")

    async def _run(self, need: NeedDecoded) -> None:
        try:
            result = await self._decode(need)
            self._cache.put(need.key, result, result_memory(result))
        finally:
            del self._running[need.key]
            self._start_queued()
            self._wake()

    async def _decode(self, need: NeedDecoded) -> DecodedChannel:
        """Decode by a worker, or in a thread if workers fail at it, so that the event loop keeps beating."""
        try:
            result: DecodedChannel = await self._pool.run(need.task)
        except TaskFailed as failure:
            text = "workers failed to decode a channel, decoding it here"
            log.warn(text, code=Code.WORKER_FAILED.text, reason=failure)
            return await asyncio.to_thread(run, need.task)
        return result


def result_memory(result: DecodedChannel) -> int:
    """Return about the bytes of memory that a result takes."""
    return _RESULT_OVERHEAD + sum(map(batch_memory, result.batches))
