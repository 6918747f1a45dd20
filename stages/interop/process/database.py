"""The interop database, used by a thread of its own so that a slow disk delays nothing else, and answers from it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.interop.config import InteropConfig
from rollup_node.stages.interop.process.store import InteropStore, InteropStoreError
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.interop import DeniedOutput, RoundRequest, RoundResponse
from rollup_node.stages.protocol.errors import CriticalError, TemporaryError

T = TypeVar("T")
MAX_PENDING = 64
"""Requests that wait; clients repeat others."""
IDLE_SECONDS = 3600.0


class InteropDatabase:
    """The file of `path`, open as long as the process runs; `state` and `decided` are what it had when it was opened.

    Raises CriticalError if it does not open, or fails [VDB2, VDB4]."""

    def __init__(self, path: str, config: InteropConfig) -> None:
        try:
            self.store = InteropStore(path, config, create=False)
            with ExitStack() as failed:
                failed.callback(self.store.close)
                self.state, self.decided = self.store.state(), self.store.decided()
                failed.pop_all()
        except InteropStoreError as error:
            raise CriticalError(str(error), error.code) from None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="interop database")

    async def run(self, use: Callable[[InteropStore], T]) -> T:
        """Return what a function makes of the store. Raises TemporaryError when the file fails.

        A damaged file fails again each time, until the node is stopped and the file removed."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: use(self.store))
        except InteropStoreError as error:
            raise TemporaryError(str(error), error.code) from None

    async def close(self, seconds: float) -> None:
        """Close the file, and wait up to `seconds` for a call that is open."""
        closing = self._thread.submit(self.store.close)
        self._thread.shutdown(wait=False)
        await asyncio.wait((asyncio.wrap_future(closing),), timeout=seconds)


class RoundServer:
    """The server of `interop.rounds`: rounds and denied blocks, in the order of arrival [LB7, LB8, LB10].

    It needs the database alone, so it answers also while an engine is away."""

    def __init__(self, bus: Bus, config: InteropConfig, database: InteropDatabase) -> None:
        self._config, self._database = config, database
        self._pending: dict[tuple[ProcessId, int], RoundRequest] = {}
        self.task = PeriodicTask("requests", self._step)
        self._server = bus.serve("interop.rounds", self._take)

    def _take(self, client: ProcessId, request: RoundRequest) -> None:
        if len(self._pending) < MAX_PENDING:
            self._pending.setdefault((client, request.id), request)
            self.task.wake.set()

    async def _step(self) -> float:
        while self._pending:
            (client, number), request = next(iter(self._pending.items()))
            try:
                response = await self._database.run(partial(self._answer, request))
            except TemporaryError as error:
                response = RoundResponse(number, str(error), None, {}, {}, {})
            del self._pending[client, number]
            self._server.send(client, response)
        return IDLE_SECONDS

    def _answer(self, request: RoundRequest, store: InteropStore) -> RoundResponse:
        verified = store.round_at(request.timestamp)
        denied = {}
        for chain_id, number in self._config.heights_at(request.timestamp).items():
            for head in store.denied(chain_id, number)[-1:]:
                denied[chain_id] = DeniedOutput(head.block.hash, head.state_root, head.storage_root)
        if verified is None:
            return RoundResponse(request.id, None, None, {}, denied, {})
        outputs, removed = verified.outputs, verified.removed
        return RoundResponse(request.id, None, verified.l1, verified.heads, denied, outputs, removed)
