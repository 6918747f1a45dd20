"""Admin calls whose effect is kept.

What a call brings about is stored before it does, and the call fails if that fails [ADM5, ADM7]. The files are written
in a thread, for a slow disk must delay neither heads nor the sequencer."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.engine.core.engine_core import EngineCore
from rollup_node.stages.engine.process.sequencer_store import SequencerStore, StoreFailedError
from rollup_node.stages.engine.sequencer.sequencer_rows import MAX_ADMIN_REQUESTS
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.control import (
    SetRecoverModeRequest,
    SetSdmOptInRequest,
    StartSequencerRequest,
    StopSequencerRequest,
)

StoredRequest = StartSequencerRequest | StopSequencerRequest | SetRecoverModeRequest | SetSdmOptInRequest

IDLE_SECONDS = 3600.0
RETRY_SECONDS = 1.0

log = get_logger("engine")


class StoredRequests:
    """One call at a time, in the order of arrival.

    `apply` makes a call take effect, `refuse` answers it with an error. `in_force` is whether the sequencer is started,
    `_stored` what another life of the process would begin with; None where that is not known."""

    def __init__(
        self,
        store: SequencerStore,
        core: EngineCore,
        apply: Callable[[ProcessId, StoredRequest], None],
        refuse: Callable[[ProcessId, int, str], None],
        *,
        active: bool,
    ) -> None:
        self._store, self._core, self._apply, self._refuse = store, core, apply, refuse
        self._in_force = active
        self._stored: bool | None = active
        self._waiting: dict[tuple[ProcessId, int], StoredRequest] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sequencer state")
        self.task = PeriodicTask("sequencer state", self._step)

    def add(self, peer: ProcessId, message: StoredRequest) -> None:
        """Take a call, perhaps a repeated one; without room for it its repetition is taken."""
        if len(self._waiting) < MAX_ADMIN_REQUESTS:
            self._waiting.setdefault((peer, message.id), message)
            self.task.wake.set()

    def close(self) -> None:
        """End the thread once it has written what it is at; calls that wait get no answer."""
        self._thread.shutdown(wait=False)

    async def _step(self) -> float:
        while self._waiting:
            (peer, number), message = next(iter(self._waiting.items()))
            error = await self._keep(message)
            if error is None:
                self._apply(peer, message)
            else:
                self._refuse(peer, number, error)
            del self._waiting[peer, number]
        return await self._restore()

    async def _keep(self, message: StoredRequest) -> str | None:
        """Store what a call brings about; the error text if that fails."""
        if isinstance(message, SetRecoverModeRequest):
            error = await self._write(lambda: self._store.store_recover(message.mode))
            return None if error is None else f"failed to store recover mode: {error}"
        if isinstance(message, SetSdmOptInRequest):
            error = await self._write(lambda: self._store.store_sdm_opt_in(message.enabled))
            return None if error is None else f"failed to notify SDM-state listener of state change: {error}"
        active = self._core.sequencer_change(message) if self._store.keeps_active else None
        if active is None:
            return None
        error = await self._store_active(active)
        if error is not None:
            return f"failed to notify sequencer-state listener of {'start' if active else 'stop'}: {error}"
        # The head may have moved meanwhile, so that a start is refused.
        if self._core.sequencer_change(message) is active:
            self._in_force = active
        return None

    async def _restore(self) -> float:
        """After a call that failed another life begins as this one goes on; the seconds until this is tried again."""
        if self._stored is self._in_force:
            return IDLE_SECONDS
        return IDLE_SECONDS if await self._store_active(self._in_force) is None else RETRY_SECONDS

    async def _store_active(self, active: bool) -> str | None:
        if self._stored is active:
            return None
        self._stored = None
        error = await self._write(lambda: self._store.store_active(active))
        if error is None:
            self._stored = active
        return error

    async def _write(self, write: Callable[[], None]) -> str | None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, write)
        except StoreFailedError as error:
            log.error("the sequencer's state is not stored", code=Code.SEQUENCER_STATE.text, error=str(error))
            return str(error)
        return None
