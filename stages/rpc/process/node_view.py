"""What the rpc process sees of the other processes."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import orjson

from rollup_node.ipc.bus.bus import Bus, GroupView
from rollup_node.ipc.bus.status import Subscriber
from rollup_node.stages.io.requests import RequestClient
from rollup_node.stages.messages import derivation
from rollup_node.stages.messages.base import Endpoints, Health, Problem, QueueLength
from rollup_node.stages.messages.engine import EngineStatus, ForkDoubts, Halting
from rollup_node.stages.messages.interop import RoundRequest, RoundResponse, Verdicts
from rollup_node.stages.messages.l1 import L1Heads, L1Proof
from rollup_node.stages.messages.p2p import PeerStatus
from rollup_node.stages.protocol.errors import SERVER_ERROR
from rollup_node.stages.rpc import responses
from rollup_node.stages.rpc.config import RpcConfig
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.stages.rpc.status.readiness import UnreadyReason, process_faults
from rollup_node.stages.rpc.status.status_builder import Snapshot

STATUS_SECONDS = 1.0
_FIELDS: dict[type, str] = {
    L1Heads: "l1",
    L1Proof: "l1_proof",
    derivation.DerivationStatus: "derivation",
    PeerStatus: "peers",
}
"""Where in a Snapshot a message is kept as it is."""


R = TypeVar("R")


async def answer(client: RequestClient, kind: type[R], new_request: Callable[..., Any], *params: object) -> R:
    """Return the response of another process. Raises JsonRpcError with its error."""
    response = await client.request(new_request, *params)
    if response.error is not None:
        data = getattr(response, "data", None)
        code = getattr(response, "code", SERVER_ERROR)
        raise JsonRpcError(code, response.error, None if data is None else orjson.Fragment(data))
    if not isinstance(response, kind):
        raise JsonRpcError(SERVER_ERROR, "the process gave no answer to this")
    return response


class NodeView:
    """The rpc process's view of the other processes: their last published states, and clients of their channels.

    `rounds` is the client of the interop process, if that verifies the chain."""

    def __init__(self, config: RpcConfig, bus: Bus | GroupView, rounds: RequestClient | None = None) -> None:
        self.config, self._rounds = config, rounds
        self.verdicts: Verdicts | None = None
        self.seen = Snapshot()
        self._health: dict[str, tuple[Problem, ...]] = {}
        self.on_halt: Callable[[], None] = lambda: None
        self.on_engine: Callable[[EngineStatus], None] = lambda status: None
        self._engine_changed = asyncio.Event()
        self._verdicts_changed = asyncio.Event()
        self.hashing = asyncio.Lock()
        deriving = ("blobs", "derivation") if config.derives else ()
        others = (*(("p2p",) if config.p2p else ()), *(("interop",) if config.verified else ()))
        processes = ("l1", *deriving, "engine", *others)
        self._subscribers: dict[str, Subscriber] = {process: self._subscribe(bus, process) for process in processes}
        self.control = RequestClient(bus, "engine.control")
        self.drops = RequestClient(bus, "derivation.drops") if config.derives else None
        self.peers = RequestClient(bus, "p2p.control") if config.p2p else None

    def ages(self) -> dict[str, float | None]:
        """Seconds since each process published last; None before its first status."""
        now = time.monotonic()
        last_seen = {process: subscriber.last_seen for process, subscriber in self._subscribers.items()}
        return {process: None if at is None else now - at for process, at in last_seen.items()}

    def faults(self) -> list[UnreadyReason]:
        """Return what is wrong with the processes at this moment [RPC2]."""
        return process_faults(self._health, self.ages(), self.seen.l1, self.seen.engine)

    def sync_status(self) -> dict[str, Any]:
        """Return the result of optimism_syncStatus at this moment."""
        return responses.sync_status(self.seen.l1, self.seen.engine, self.seen.derivation)

    async def engine_shows(self, condition: Callable[[EngineStatus], bool]) -> None:
        """Wait, at most STATUS_SECONDS, until the engine's status, which follows a response, meets the condition."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STATUS_SECONDS):
                while self.seen.engine is not None and not condition(self.seen.engine):
                    self._engine_changed.clear()
                    await self._engine_changed.wait()

    async def round_at(self, timestamp: int) -> RoundResponse | None:
        """Return what the interop process knows of a time in seconds; None where nothing has to be verified [LB7]."""
        if self._rounds is None or (self.verdicts is not None and timestamp < self.verdicts.activation):
            return None
        response: RoundResponse = await self._rounds.request(RoundRequest, timestamp)
        if response.l1 is not None or response.error is not None:
            return response
        # Without a round it matters whether it has to have one, which is not known right after a start.
        while (verdicts := self.verdicts) is None:
            self._verdicts_changed.clear()
            await self._verdicts_changed.wait()
        return response if timestamp >= verdicts.activation else None

    def _subscribe(self, bus: Bus | GroupView, process: str) -> Subscriber:
        def on_status(message: Any) -> None:
            if (field := _FIELDS.get(type(message))) is not None:
                self._see(**{field: message})
            elif isinstance(message, Health):
                self._health[process] = message.problems
            elif isinstance(message, EngineStatus):
                engine = self._with_finality(message)
                self._see(engine=engine)
                self._engine_changed.set()
                self.on_engine(engine)
            elif isinstance(message, Halting):
                self.on_halt()
            elif isinstance(message, ForkDoubts):
                self._see(fork_doubts=message.forks)
            elif isinstance(message, derivation.Drops):
                is_less = message.total < (self.seen.drops or 0)
                self._see(drops=message.total, drop_counts=() if is_less else self.seen.drop_counts)
            elif isinstance(message, derivation.DropCounts):
                self._see(drop_counts=message.kinds)
            elif isinstance(message, Endpoints):
                known = {**(self.seen.endpoints or {}), process: message.endpoints}
                # l1 first, whichever was heard of first.
                self._see(endpoints={name: known[name] for name in self._subscribers if name in known})
            elif isinstance(message, QueueLength):
                self._see(queues={**self.seen.queues, process: message})
            elif isinstance(message, Verdicts):
                self.verdicts = message
                self._verdicts_changed.set()

        return bus.subscribe(f"status.{process}", on_status)

    def _see(self, **fields: Any) -> None:
        self.seen = self.seen._replace(**fields)

    def _with_finality(self, status: EngineStatus) -> EngineStatus:
        """Return the status with the finalized head kept during a start search: what was final stays final [RPC40].

        So does the safe head of a chain whose messages are verified, since what is verified stays safe [SNO13]."""
        last = self.seen.engine
        if status.unsafe is not None or last is None:
            return status
        kept = {"finalized": last.finalized, "pending_safe": last.pending_safe}
        if self.config.verified and last.safe is not None:
            kept |= dict.fromkeys(("unsafe", "safe", "local_safe", "pending_safe"), last.safe)
        return msgspec.structs.replace(status, **kept)
