"""Channels being read elsewhere: by compute workers, ahead of need where possible, or here on demand."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from rollup_node.ipc.bus.task_dispatcher import TaskDispatcher, TaskFailed
from rollup_node.stages.derivation.pipeline.outputs import NeedDecoded
from rollup_node.stages.derivation.process.decoded_channels import ResultCache
from rollup_node.stages.derivation.tasks import DecodedChannel, run
from rollup_node.stages.io.log import get_logger

log = get_logger("derivation")

MAX_CACHED = 32 << 20
MAX_AHEAD = 8
MAX_QUEUED = 256


class Decoding:
    """`wake` is called when a result has come. Without a pool channels are read in this process, when needed."""

    def __init__(self, pool: TaskDispatcher | None, wake: Callable[[], None]) -> None:
        self._pool = pool
        self._wake = wake
        self._cache = ResultCache(MAX_CACHED)
        self._running: dict[bytes, asyncio.Task[None]] = {}
        self._queued: OrderedDict[bytes, NeedDecoded] = OrderedDict()

    def result(self, need: NeedDecoded) -> DecodedChannel | None:
        """The result if it is there; otherwise it is being worked on."""
        found = self._cache.get(need.key)
        if found is not None:
            return found
        if self._pool is None:
            return run(need.task)
        self._queued.pop(need.key, None)
        if need.key not in self._running:
            self._begin(self._pool, need)
        return None

    def ahead(self, need: NeedDecoded) -> None:
        """A channel that will probably be needed."""
        if self._pool is None or need.key in self._cache or need.key in self._running:
            return
        if len(self._queued) < MAX_QUEUED:
            self._queued[need.key] = need
        self._begin_queued()

    def forget_queue(self) -> None:
        """What was foreseen will not come."""
        self._queued.clear()

    async def close(self) -> None:
        """Gives up what is being worked on."""
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _begin_queued(self) -> None:
        while self._pool is not None and self._queued and len(self._running) < MAX_AHEAD:
            _, need = self._queued.popitem(last=False)
            self._begin(self._pool, need)

    def _begin(self, pool: TaskDispatcher, need: NeedDecoded) -> None:
        self._running[need.key] = asyncio.create_task(self._run(pool, need), name="decode a channel")

    async def _run(self, pool: TaskDispatcher, need: NeedDecoded) -> None:
        try:
            self._cache.put(need.key, await self._decoded(pool, need))
        finally:
            del self._running[need.key]
            self._begin_queued()
            self._wake()

    async def _decoded(self, pool: TaskDispatcher, need: NeedDecoded) -> DecodedChannel:
        """By a worker; what workers fail at, as a channel that takes them too long, in a thread of this process, which
        goes on beating beside it."""
        try:
            result: DecodedChannel = await pool.run(need.task)
        except TaskFailed as failure:
            log.warn("a channel is decoded here, for the workers failed", reason=failure.reason)
            return await asyncio.to_thread(run, need.task)
        return result
