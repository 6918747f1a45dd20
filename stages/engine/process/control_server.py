"""The requests of the rpc process, and admin calls that are stored before they take effect [ADM5, ADM7]."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.engine.calls.actions import RpcResponse
from rollup_node.stages.engine.core.engine_core import EngineCore, RpcRequest
from rollup_node.stages.engine.core.sequencer_rows import MAX_ADMIN_REQUESTS
from rollup_node.stages.engine.process.sequencer_store import SequencerStore, StoreFailedError
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages import control
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.bounded_cache import BoundedCache

MAX_RESPONSES = 512
MAX_RESPONSE_BYTES = 16 << 20
RESPONSE_BYTES = 1024
"""What a response takes without transactions and text."""

TRANSACTION_BYTES = 48
"""What a transaction takes beside its bytes."""


class ControlServer:
    """The server of `engine.control`; `handle` takes each request that has no response yet."""

    def __init__(self, bus: Bus, handle: Callable[[ProcessId, RpcRequest], None]) -> None:
        self._handle = handle
        self.responses: BoundedCache[tuple[ProcessId, int], RpcResponse] = BoundedCache(
            MAX_RESPONSE_BYTES, MAX_RESPONSES, keeps_newest=False
        )
        self._server = bus.serve("engine.control", self._take)

    def respond(self, peer: ProcessId, response: RpcResponse) -> None:
        """Send a response and keep it for repeated requests, unless it is a block that is too large."""
        self.responses.put((peer, response.id), response, _size(response))
        self._server.send(peer, response)

    def refuse(self, peer: ProcessId, number: int, error: str) -> None:
        """Answer an admin call with an error."""
        self.respond(peer, control.ControlResponse(number, error, None))

    def _take(self, peer: ProcessId, message: RpcRequest) -> None:
        response = self.responses.get((peer, message.id))
        if response is None:
            self._handle(peer, message)
        else:
            self._server.send(peer, response)


def _size(response: RpcResponse) -> int:
    """Return the bytes of memory that a response takes, about."""
    size = RESPONSE_BYTES + len(response.error or "")
    if isinstance(response, control.BuildResponse) and response.payload is not None:
        size += sum(TRANSACTION_BYTES + len(transaction) for transaction in response.payload.transactions)
    return size


StoredRequest = (
    control.StartSequencerRequest
    | control.StopSequencerRequest
    | control.SetRecoverModeRequest
    | control.SetSdmOptInRequest
)

IDLE_SECONDS = 3600.0
RETRY_SECONDS = 1.0

log = Logger("engine")


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
        if isinstance(message, control.SetRecoverModeRequest):
            error = await self._write(recover=message.mode)
            return None if error is None else f"failed to store recover mode: {error}"
        if isinstance(message, control.SetSdmOptInRequest):
            error = await self._write(sdm_opt_in=message.enabled)
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
        error = await self._write(active=active)
        if error is None:
            self._stored = active
        return error

    async def _write(self, **changes: bool) -> str | None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._store.store(**changes))
        except StoreFailedError as error:
            log.error("the sequencer's state is not stored", code=Code.SEQUENCER_STATE.text, error=str(error))
            return str(error)
        return None
