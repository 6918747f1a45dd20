"""Answers about rounds and denied blocks, from the database alone: also while an engine is away [LB7, LB8, LB10]."""

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.interop.config import InteropConfig
from rollup_node.stages.interop.io.store import InteropStore
from rollup_node.stages.interop.process.database import InteropDatabase
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.verification import DeniedOutput, RoundRequest, RoundResponse
from rollup_node.stages.protocol.errors import TemporaryError

MAX_PENDING = 64
"""Requests that wait; clients repeat others."""
IDLE_SECONDS = 3600.0


class RoundServer:
    """The server of `interop.rounds`, which answers in the order of arrival."""

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
                response = await self._read(request)
            except TemporaryError as error:
                response = RoundResponse(number, str(error), None, {}, {}, {})
            del self._pending[client, number]
            self._server.send(client, response)
        return IDLE_SECONDS

    async def _read(self, request: RoundRequest) -> RoundResponse:
        return await self._database.run(lambda store: self._answer(store, request))

    def _answer(self, store: InteropStore, request: RoundRequest) -> RoundResponse:
        verified = store.round_at(request.timestamp)
        denied = {}
        for chain_id, number in self._config.heights_at(request.timestamp).items():
            for block in store.denied(chain_id, number)[-1:]:
                denied[chain_id] = DeniedOutput(block.hash, block.state_root, block.storage_root)
        if verified is None:
            return RoundResponse(request.id, None, None, {}, denied, {})
        return RoundResponse(request.id, None, verified.l1, verified.heads, denied, verified.outputs)
