"""The engine process: one loop around the engine core, which decides everything."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.engine.calls import calls
from rollup_node.stages.engine.calls.safe_head_entries import (
    FindSafeHeads,
    KeepSafeHeads,
    ResetSafeHeads,
    SafeHeadEntry,
)
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.core.engine_core import EngineCore, Notification, PeerRequest
from rollup_node.stages.engine.core.interop import Decision
from rollup_node.stages.engine.core.rows import TaskBackoff
from rollup_node.stages.engine.process.action_handler import ActionHandler
from rollup_node.stages.engine.process.bus_clients import L1Client, P2PClient
from rollup_node.stages.engine.process.call_runner import CallRunner, stimuli_logged
from rollup_node.stages.engine.process.control_server import ControlServer, StoredRequest, StoredRequests
from rollup_node.stages.engine.process.engine_client import EngineClient
from rollup_node.stages.engine.process.interop_server import InteropServer
from rollup_node.stages.engine.process.neighbour_clients import ConductorClient, FollowClient
from rollup_node.stages.engine.process.protocol_versions import ProtocolVersions
from rollup_node.stages.engine.process.reads import Reader
from rollup_node.stages.engine.process.safe_heads import SafeHeadDatabase
from rollup_node.stages.engine.process.sequencer_store import SequencerStore
from rollup_node.stages.engine.process.status_publisher import StatusPublisher
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import LATE_SECONDS, PeriodicTask, Stage
from rollup_node.stages.messages.base import Message, Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.control import L1AtSafeHeadRequest, OutputRequest, SafeHeadRequest
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import STARTS_A_LIFE, ForkDoubts, Halting, L2BlocksRequest
from rollup_node.stages.messages.interop import Verdicts
from rollup_node.stages.messages.l1 import L1Heads, RuntimeConfigs
from rollup_node.stages.messages.p2p import PayloadRequest
from rollup_node.stages.protocol.config import network_left
from rollup_node.stages.protocol.errors import TemporaryError

WATCH_SECONDS = 3.0
_HANGS = Problem(Code.ENGINE_SLOW, "watch", f"the execution engine has not answered for {LATE_SECONDS:g} s")
REPEAT_SECONDS = 1.0
DAY_SECONDS, RETRY_SECONDS = 86_400.0, 60.0
FINISH_SECONDS = 0.5
SEAL_SECONDS = 1.0
JITTER_SECONDS = 0.25

log = Logger("engine")


def present() -> calls.Instant:
    return calls.Instant(time.time(), time.monotonic())


class EngineStage(Stage):
    """The engine process: its loop, a watch over an engine with nothing to do, and what is repeated."""

    def __init__(
        self,
        config: EngineConfig,
        bus: Bus,
        meter: Meter,
        backoff: TaskBackoff | None = None,
        clock: Callable[[], calls.Instant] = present,
    ) -> None:
        store = SequencerStore(config)
        config = store.load()
        self.config, self.meter, self._clock = config, meter, clock
        self.core = EngineCore(
            config,
            first_reset=bus.process_id.incarnation * STARTS_A_LIFE,
            backoff=backoff or TaskBackoff(jitter=lambda: random.uniform(0, JITTER_SECONDS)),
        )
        engine = config.url, config.jwt_secret, config.timeout, config.rollup, meter
        self._client = EngineClient(*engine)
        self._reading_client = EngineClient(*engine, self._client.record)
        self._conductor = ConductorClient(config.conductor_url, config.conductor_timeout, meter)
        self._follow: FollowClient | None = None
        if config.follow_url is not None:
            self._follow = FollowClient(config.follow_url, config.follow_timeout, config.rollup, meter)
        self._reader = Reader(config, self._reading_client, self.core.status)
        self._safe_heads = SafeHeadDatabase(config)
        self._asked = self._call_table()
        self._loop = PeriodicTask("engine", self._step)
        self.periodic_tasks = [self._loop, PeriodicTask("watch", self._watch, late=_HANGS)]
        self._calls = CallRunner(self._ask, self._take_answer, self._settle, self._loop.wake.set)
        self._looked, self._due = clock(), 0.0
        self._is_ending = self._is_closing = False
        self._status = StatusPublisher(bus, meter, self._client.record)
        self._l1 = L1Client(bus, self._on_message)
        self._p2p = P2PClient(bus, meter, self._on_message) if config.p2p else None
        self._control = ControlServer(bus, self._request)
        self._stored = StoredRequests(
            store, self.core, self._take_request, self._control.refuse, active=not config.sequencer_stopped
        )
        self._actions = ActionHandler(
            config,
            meter,
            self._status,
            self._l1,
            bus.serve("engine.blocks", self._request),
            self._control,
            self._p2p,
            bus.serve("engine.payloads", self._request) if config.p2p else None,
        )
        self._interop = self._interop_server(bus) if config.interop else None
        signal = self._reading_client.signal_versions
        self._versions = ProtocolVersions(config.halt, signal, lambda: self._status.set(Halting()), meter)
        forks = PeriodicTask("forks of the engine", self._watch_forks)
        self.periodic_tasks += [self._stored.task, self._versions.task, forks]
        if self._p2p is not None:
            self.periodic_tasks.append(PeriodicTask("blocks from peers", self._repeat))
        others = (*(("derivation",) if self._follow is None else ()), *(("interop",) if config.verified else ()))
        for process in ("l1", *others):
            bus.subscribe(f"status.{process}", self._on_status)
        self._actions.perform(self.core.take_actions())

    def _interop_server(self, bus: Bus) -> InteropServer:
        reading = self._reading_client, self._reader, self._l1, self.core.interop
        return InteropServer(self.config, bus, *reading, self._decide, lambda: self.core.reset_count)

    def _call_table(self) -> dict[type, Callable[[Any], Awaitable[calls.CoreAnswer]]]:
        """Return who makes the core's calls that are not the engine client's, by type."""
        return {
            calls.GetL1BlockRef: lambda call: self._l1.ref(call.number, call.fresh),
            calls.GetFollowStatus: self._ask_source,
            L2BlocksRequest: self._reader.overlap_blocks,
            OutputRequest: self._reader.output,
            PayloadRequest: self._reader.payload,
            SafeHeadRequest: self._safe_heads.at_l1,
            L1AtSafeHeadRequest: self._safe_heads.l1_of,
            FindSafeHeads: self._safe_heads.find,
            **dict.fromkeys((SafeHeadEntry, ResetSafeHeads, KeepSafeHeads), self._safe_heads.write),
            **dict.fromkeys((calls.GetLeader, calls.CommitPayload), self._conductor.ask),
        }

    async def start(self) -> None:
        """Log what this node leaves to others; the clients connect with their first call."""
        if self.config.conductor_enabled:
            log.info("sequencer is stopped until the conductor starts it", conductor=self._conductor.name)
        if self._follow is not None:
            log.info("following the heads of another node instead of deriving", source=self._follow.name)

    async def close(self) -> None:
        """Wait a moment for a sealed block and for calls that move or record heads, then close all."""
        self._stored.close()
        await self._finish_last_block(SEAL_SECONDS)
        if self._interop is not None:
            await self._interop.close()
        self._is_closing = True
        await self._calls.close(FINISH_SECONDS)
        self._calls.check()
        await self._client.close()
        await self._conductor.close()
        if self._follow is not None:
            await self._follow.close()
        await self._reader.close()
        await self._safe_heads.close(FINISH_SECONDS)

    async def _finish_last_block(self, seconds: float) -> None:
        """End sequencing, with the block that is sealed: the conductor and peers may have it already [SEQ28]."""
        self.core.shut_down()
        self._is_ending = True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.core.last_block_waits:
                    self._loop.wake.clear()
                    pause = await self._step()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._loop.wake.wait(), pause)

    def reset(self, error: Exception) -> None:
        """Raise the error: the core handles resets by itself, so no task of this stage ends in one."""
        raise error

    def report(self, problems: tuple[Problem, ...]) -> None:
        """Take the problems that the runtime knows of."""
        self._status.set_runtime_problems(problems)
        self._actions.tick()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Perform the actions of what the core takes in the block; the loop goes on then."""
        with stimuli_logged(self.core.log):
            yield
            self._actions.perform(self.core.take_actions())
        self._loop.wake.set()

    def _decide(self, decision: Decision, reset_count: int) -> None:
        with self._turn():
            self.core.decide(decision, self._clock(), reset_count)

    async def _step(self) -> float:
        """Make the calls that are due. Raises NetworkLeftError at the last block that can be derived [LFT4]."""
        self._calls.check()
        now = self._clock()
        with stimuli_logged(self.core.log):
            for pending in self.core.next_calls(now):
                self._calls.start(pending)
            self._perform()
            self.core.log.settle()
            self._due = self.core.wait_until(now)
        if (safe := self.core.last_safe_head) is not None:
            raise network_left(self.config.rollup, safe)
        return max(0.0, self._due - self._clock().monotonic)

    def _perform(self) -> None:
        self._actions.perform(self.core.take_actions())
        if self._interop is not None:
            self._interop.send_events()

    def _take_answer(self, pending: calls.PendingCall, answer: calls.CoreAnswer) -> list[calls.PendingCall]:
        """Return the calls that are due after an answer. They are made before its actions are performed [ENG44]."""
        self._looked = now = self._clock()
        with stimuli_logged(self.core.log):
            self.core.answer(pending, answer, now)
            due = [] if self._is_closing else self.core.next_calls(now)
            if self.core.acts_first:
                self._perform()
        return due

    def _settle(self) -> None:
        """Perform the actions after an answer; the loop goes on if it has to do something earlier than it knows."""
        with stimuli_logged(self.core.log):
            self._perform()
            self.core.log.settle()
            if (attributes := self.core.prepare()) is not None:
                self._client.encode_ahead(attributes)
            ends = self._is_ending or self.core.last_safe_head is not None
            if ends or self.core.wait_until(self._looked) < self._due:
                self._loop.wake.set()

    async def _ask(self, call: calls.CoreCall) -> calls.CoreAnswer:
        """Make one call. Raises TemporaryError when there is no answer."""
        return await self._asked.get(type(call), self._client.ask)(call)

    async def _ask_source(self, call: calls.GetFollowStatus) -> calls.CoreAnswer:
        assert self._follow is not None
        return await self._follow.status(check_chain=call.check_chain)

    def _request(self, peer: ProcessId, message: PeerRequest) -> None:
        if self.config.sequencer_enabled and isinstance(message, StoredRequest):
            self._stored.add(peer, message)
        else:
            self._take_request(peer, message)

    def _take_request(self, peer: ProcessId, message: PeerRequest) -> None:
        with self._turn():
            self.core.request(peer, message, self._clock())

    def _on_message(self, message: Notification) -> None:
        with self._turn():
            self.core.on_message(message, self._clock())

    def _on_status(self, message: Message) -> None:
        if isinstance(message, L1Heads | DerivationStatus | Verdicts):
            self._on_message(message)
        elif isinstance(message, RuntimeConfigs) and (chain := self.config.rollup.l2_chain_id) in message.chains:
            self._versions.update(message.chains[chain])

    async def _watch(self) -> float:
        """Notice that the engine is away also while no call shows it."""
        if self._silent >= WATCH_SECONDS and not self._status.engine_fails:
            await self._client.check_chain()
        left = WATCH_SECONDS - self._silent
        return left if left > 0 else WATCH_SECONDS

    async def _watch_forks(self) -> float:
        """Publish once a day which forks the engine seems not to know."""
        try:
            doubts = await self._reading_client.fork_doubts(self.config.network, self._clock().unix)
        except TemporaryError:
            # Other work says that the engine is away.
            return RETRY_SECONDS
        self._status.set(ForkDoubts(tuple(doubts)))
        return DAY_SECONDS

    @property
    def _silent(self) -> float:
        return min(self._client.silent, self._reading_client.silent)

    async def _repeat(self) -> float:
        """Repeat the needs towards the p2p process."""
        heads = self.core.heads
        if self._p2p is not None:
            self._p2p.repeat(0 if heads is None else heads.unsafe.number)
        return REPEAT_SECONDS


build = EngineStage
