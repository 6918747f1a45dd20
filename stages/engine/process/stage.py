"""The engine process: finds a start, brings derived attributes into the execution engine, sequences, follows finality,
and answers derivation and rpc.

Calls that move heads are made under one lock, a whole job at a time; the cores keep every state between two calls."""

import asyncio
import time
from typing import Any

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.engine.api.engine_api import Answer, Call, FetchPayload, UpdateForkchoice, leaves_doubt
from rollup_node.stages.engine.api.heads import Heads
from rollup_node.stages.engine.api.io.ancestors import Ancestors
from rollup_node.stages.engine.api.io.client import EngineClient
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.core.base_search import Base, BaseSearch
from rollup_node.stages.engine.core.driver import Driver, Outcome
from rollup_node.stages.engine.core.finality import Finality, Finalize
from rollup_node.stages.engine.core.origin_selector import (
    InconsistentOriginError,
    L1Window,
    NoOrigin,
    OriginSelector,
)
from rollup_node.stages.engine.core.sequencer import NeedAttributes, Sequenced, Sequencer, SequencerError
from rollup_node.stages.engine.core.sequencer_attributes import sequencer_attributes
from rollup_node.stages.engine.core.start_search import NeedGenesis, NeedOrigin, NeedParent, StartSearch
from rollup_node.stages.engine.process.blocks_server import BlocksServer
from rollup_node.stages.engine.process.control_server import ControlServer
from rollup_node.stages.engine.process.l1_client import OriginsClient
from rollup_node.stages.engine.process.reads import Reader
from rollup_node.stages.engine.process.sequencer_state_file import SequencerMemory
from rollup_node.stages.engine.process.status_publisher import StatusServer
from rollup_node.stages.engine.process.unsafe_chain import UnsafeChain
from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import AttributesOutcome, EngineStatus, PipelineStart
from rollup_node.stages.messages.l1 import L1Heads
from rollup_node.stages.protocol.config import SystemConfig
from rollup_node.stages.protocol.deposits import is_deposit
from rollup_node.stages.protocol.errors import ResetError, TemporaryError
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash, L2BlockRef

log = get_logger("engine")

SETTLE_SECONDS = 0.1
SEARCH_PAUSE = 1.0
IDLE_SECONDS = 30.0
POLL_SECONDS = 1.0
WATCH_SECONDS = 3.0


class EngineStage:
    """All of one process's job; `activities` are what the runtime drives."""

    def __init__(self, config: EngineConfig, bus: Bus, meter: Meter) -> None:
        self.config, self.meter = config, meter
        self.first_reset = bus.process_id.incarnation << 32
        self.starts = 0
        self.driver = Driver(config.rollup)
        self.window = L1Window()
        self.selector = OriginSelector(config.rollup, config.sequencer_l1_confs, config.sequencer_recover)
        self.finality = Finality(config.rollup, config.finality_lookback, config.finality_delay)
        self.memory = SequencerMemory(config.sequencer_state_file)
        self.sequencer = Sequencer(
            config.rollup,
            enabled=config.sequencer_enabled,
            stopped=self.memory.stopped(otherwise=config.sequencer_stopped),
            sealing_duration=config.sealing_duration,
            max_safe_lag=config.sequencer_max_safe_lag,
        )
        self.client = EngineClient(config.url, config.jwt_secret, config.timeout, config.rollup, meter)
        self.lock = asyncio.Lock()
        self.unconfirmed: PipelineStart | None = None
        self.search_at = self.settle_at = 0.0
        self.trouble: str | None = None
        self.without_origin = False
        self.tip_config: tuple[Hash, SystemConfig] | None = None
        self.drive, self.sequence, self.finalize, self.read, _ = own = (
            PeriodicTask("drive", self._drive),
            PeriodicTask("sequence", self._sequence),
            PeriodicTask("finalize", self._finalize),
            PeriodicTask("read", self._read),
            PeriodicTask("watch", self._watch),
        )
        self.unsafe = UnsafeChain(config, bus, meter, self.driver, self, self.lock, lambda: self.unconfirmed is None)
        self.periodic_tasks = [*own, *self.unsafe.periodic_tasks]
        self.origins = OriginsClient(bus, self.window, self.sequence.wake.set)
        self.status = StatusServer(bus, meter)
        self.blocks = BlocksServer(bus, self._ask_reset, self._wake_all)
        self.control = ControlServer(bus, self._start, self._stop, self._ask_reset, self.unsafe.add, self._wake_all)
        self.reader = Reader(config, self.client, self.blocks, self.control, self._engine_status)
        bus.subscribe("status.l1", self._on_l1)
        bus.subscribe("status.derivation", self._on_derivation)
        self._publish()

    # --- what the runtime calls ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Nothing to open: the client connects with its first call."""

    async def close(self) -> None:
        """Closes the connections."""
        await self.client.close()

    def reset(self, error: Exception) -> None:
        """Clears all that was built on and looks for a new start."""
        if isinstance(error, InconsistentOriginError):
            self.meter.count("sequencer_inconsistent_l1_origin")
        log.warn("resetting", reason=str(error))
        self.meter.count("pipeline_resets")
        if self.sequencer.enabled:
            self.meter.count("sequencer_resets")
        self.driver.clear()
        self.sequencer.on_reset()
        self.finality.reset()
        self.blocks.clear()
        self.window.forget()
        self.unconfirmed = None
        self.status.set_trouble("start", f"looking for a start: {error}")
        self._publish()
        self._finish_stops()
        self.drive.wake.set()

    def report(self, problems: tuple[str, ...]) -> None:
        """Takes what the runtime knows to be wrong."""
        self.status.set_runtime_troubles(problems)

    # --- news ------------------------------------------------------------------------------------------------------

    def _on_l1(self, message: Any) -> None:
        if not isinstance(message, L1Heads):
            return
        if message.head is not None and self.window.note_head(message.head):
            self.sequence.wake.set()
        finalized = message.finalized
        if finalized is not None and finalized != self.finality.finalized_l1:
            if self.finality.note_finalized_l1(finalized):
                self.finalize.wake.set()
            else:
                log.error("L1's finalized block went back; ignored", number=finalized.number)

    def _on_derivation(self, message: Any) -> None:
        if not isinstance(message, DerivationStatus) or message.reset != self.driver.reset:
            return
        if message.idle and message.current_l1 is not None:
            self.finality.note_idle(message.current_l1)
            self.finalize.wake.set()

    def _wake_all(self) -> None:
        for activity in self.periodic_tasks:
            activity.wake.set()

    def _ask_reset(self, reason: str) -> None:
        """Somebody else wants a new start; nothing to do while one is being looked for."""
        if self.driver.heads is not None:
            self.reset(ResetError(reason))

    # --- heads -----------------------------------------------------------------------------------------------------

    async def _drive(self) -> float:
        if self.driver.heads is None:
            pause = self.search_at - time.monotonic()
            if pause > 0:
                return pause
            self.search_at = time.monotonic() + SEARCH_PAUSE
            await self._search()
        if self.blocks.restart_wanted:
            await self._restart_derivation()
        async with self.lock:
            await self._apply_derived()
            await self._settle_when_due()
        if self.driver.settle() is not None:
            return max(0.0, self.settle_at - time.monotonic())
        return IDLE_SECONDS

    async def _search(self) -> None:
        """Finds heads and base; they are in force, and derivation is told, once the engine has taken them."""
        search = StartSearch(self.config.rollup, self.config.skip_sync_start_check)
        ancestors = Ancestors(self.client)
        self.origins.forget()
        while not isinstance(need := search.next(), Heads):
            if isinstance(need, NeedOrigin):
                search.give_origin(need, await self.origins.ref(need.number))
            elif isinstance(need, NeedParent):
                search.give_block(need, await ancestors.parent(need.child))
            else:
                name = need.number if isinstance(need, NeedGenesis) else need.label
                search.give_block(need, await self.client.ref(name))
        start = await self._start_at(need.safe)
        self.driver.start(start.reset, need, start.safe_config)
        self.unconfirmed = start
        log.info("found a start", unsafe=need.unsafe, safe=need.safe, finalized=need.finalized, base=start.base)

    async def _start_at(self, safe: L2BlockRef) -> PipelineStart:
        """The start at a safe head, with a number of its own."""
        known = await self.client.known(safe.hash)
        if known is None:
            raise TemporaryError(f"the engine has not got its safe block {safe}")
        search = BaseSearch(self.config.rollup, known)
        while not isinstance(need := search.next(), Base):
            search.give(need.number, await self.client.known(need.number))
        self.starts += 1
        return PipelineStart(self.first_reset | self.starts, safe, known.config, need.base, need.config)

    async def _restart_derivation(self) -> None:
        heads = self.driver.heads
        if heads is None:
            return
        start = await self._start_at(heads.safe)
        async with self.lock:
            if self.driver.heads is None or self.unconfirmed is not None:
                return
            if self.driver.heads.safe != start.safe_head:
                self.drive.wake.set()
                return
            self.driver.restart(start.reset)
            self.finality.reset()
            self.blocks.begin(start)
            log.info("derivation begins again", safe=start.safe_head, base=start.base)
            self._publish()

    async def _apply_derived(self) -> None:
        if self.unconfirmed is None and self.blocks.derived is not None:
            derived, self.blocks.derived = self.blocks.derived, None
            again = self.driver.offer(derived)
            if again is not None:
                self.blocks.applied(self.driver.reset, again)
        while (call := self.driver.next()) is not None:
            if self.driver.building:
                self.sequencer.on_derived_build()
            await self.perform(call)

    async def _settle_when_due(self) -> None:
        due = self.unconfirmed is not None or self.driver.restoring or time.monotonic() >= self.settle_at
        if due and (call := self.driver.settle()) is not None:
            await self.perform(call)

    async def ask(self, call: Call) -> Answer:
        """One call of the engine. An answer that leaves doubt whether it still has the heads in force has them told to
        it again: one that has lost blocks, in a restart say, takes them up, or shows that it needs a new start."""
        answer = await self.client.ask(call)
        if leaves_doubt(answer) and call != self.driver.settle():
            self.driver.doubt()
            if (told := self.driver.settle()) is not None:
                await self.perform(told)
        return answer

    async def payload(self, number: int) -> ExecutionPayload | None:
        """The engine's canonical block of a number."""
        return await self.client.payload(number)

    async def perform(self, call: Call) -> None:
        """One call of the driver's, and what follows from its answer."""
        answer = await self.ask(call)
        outcome = self.driver.answer(call, answer)
        if isinstance(call, UpdateForkchoice) and call.attributes is None and self.driver.settle() is None:
            self._confirm()
        self._tell(outcome)
        self._publish()

    def _confirm(self) -> None:
        """The engine has the heads in force."""
        heads, start = self.driver.heads, self.unconfirmed
        if heads is None:
            return
        if start is None:
            self.sequencer.on_heads(heads, time.time())
        else:
            self.unconfirmed = None
            self.sequencer.on_start(heads, time.time())
            self.blocks.begin(start)
            self.control.finish_resets()
            self.status.set_trouble("start", None)
        self._finish_stops()
        self.sequence.wake.set()

    def _tell(self, outcome: Outcome | None) -> None:
        heads = self.driver.heads
        if outcome is None or heads is None:
            return
        self.settle_at = time.monotonic() + SETTLE_SECONDS
        self.blocks.applied(self.driver.reset, outcome)
        if outcome.safe_head == heads.safe and outcome.outcome is not AttributesOutcome.REFUSED:
            self.finality.note_safe(heads.safe, outcome.derived_from)
        if outcome.reason is not None:
            log.warn(f"derived block {outcome.outcome}", safe=outcome.safe_head, reason=outcome.reason)
        else:
            log.debug("derived block is safe", safe=outcome.safe_head, origin=outcome.derived_from)
        if outcome.built is not None:
            self._count_transactions(outcome.built)
        self.sequencer.on_heads(heads, time.time())

    # --- sequencing ------------------------------------------------------------------------------------------------

    async def _sequence(self) -> float:
        if not self.sequencer.enabled:
            return IDLE_SECONDS
        async with self.lock:
            try:
                await self._sequence_once()
                trouble = self.sequencer.trouble
            except TemporaryError as error:
                self.sequencer.failed(time.time())
                trouble = str(error)
        self._show_trouble(trouble)
        self._finish_stops()
        due = None if self.without_origin else self.sequencer.wait_until()
        return POLL_SECONDS if due is None else min(POLL_SECONDS, max(0.0, due - time.time()))

    async def _sequence_once(self) -> None:
        heads = self.driver.heads
        if heads is None or self.unconfirmed is not None:
            return
        self.origins.want(*self.selector.wanted(heads.unsafe, self.window))
        need = self.sequencer.next(time.time())
        self.without_origin = isinstance(need, NeedAttributes) and self._lacks_origin(need.parent)
        if isinstance(need, NeedAttributes) and not self.without_origin:
            await self._prepare(need)
            need = self.sequencer.next(time.time())
        if need is None or isinstance(need, NeedAttributes):
            return
        began = time.monotonic()
        answer = await self.ask(need)
        if isinstance(need, FetchPayload):
            self.meter.observe("sequencer_sealing_seconds", time.monotonic() - began)
        event = self.sequencer.answer(need, answer, time.time())
        if isinstance(need, FetchPayload) and self.sequencer.sealed is not None:
            self.unsafe.publish(self.sequencer.sealed)
        if isinstance(event, SequencerError):
            self.meter.count("sequencing_errors")
        if isinstance(event, Sequenced) and self.driver.heads is not None:
            self._sequenced(event)
            if (call := self.driver.settle()) is not None:
                await self.perform(call)

    def _lacks_origin(self, head: L2BlockRef) -> bool:
        """Whether the head's L1 block is still on its way; its arrival wakes the activity."""
        return self.window.get(head.l1_origin.number) is None

    def _show_trouble(self, trouble: str | None) -> None:
        if trouble is not None and trouble != self.trouble:
            log.warn("cannot sequence now", reason=trouble)
        self.trouble = trouble
        self.status.set_trouble("sequencer", None if trouble is None else f"sequencer: {trouble}")

    async def _prepare(self, need: NeedAttributes) -> None:
        if (call := self.driver.settle()) is not None:
            await self.perform(call)
        chosen = self.selector.select(need.parent, self.window)
        if isinstance(chosen, NoOrigin):
            raise TemporaryError(chosen.reason)
        parent_config = await self._config_of(need.parent)
        config = self.config
        attributes = sequencer_attributes(
            config.rollup, config.l1_chain, need.parent, parent_config, chosen.block, config.sequencer_recover
        )
        self.sequencer.prepared(need, attributes)

    async def _config_of(self, block: L2BlockRef) -> SystemConfig:
        if self.tip_config is not None and self.tip_config[0] == block.hash:
            return self.tip_config[1]
        known = await self.client.known(block.hash)
        if known is None:
            raise ResetError(f"the engine has lost its head {block}")
        self.tip_config = (block.hash, known.config)
        return known.config

    def _sequenced(self, event: Sequenced) -> None:
        ref = event.block.ref
        self.driver.advance(ref)
        self.tip_config = (ref.hash, event.block.config)
        self._count_transactions(event.payload)
        self.meter.count("sequencer_building_diff_total")
        self.meter.observe("sequencer_building_diff_seconds", event.seconds - self.config.rollup.block_time)
        self.meter.count("sequencer_sealing_total")
        log.info("sequenced a block", block=ref, origin=ref.l1_origin, transactions=len(event.payload.transactions))
        self._publish()

    def _count_transactions(self, payload: ExecutionPayload) -> None:
        deposits = sum(map(is_deposit, payload.transactions))
        self.meter.count("transactions_sequenced_total", deposits, type="deposits")
        self.meter.count("transactions_sequenced_total", len(payload.transactions) - deposits, type="txns")

    # --- control ---------------------------------------------------------------------------------------------------

    def _start(self, head: Hash) -> str | None:
        error = self.sequencer.start(head, time.time())
        if error is None:
            self.memory.note(active=True)
            log.info("sequencer started", head=self.driver.heads and self.driver.heads.unsafe)
            self._publish()
            self.sequence.wake.set()
        return error

    def _stop(self) -> str | None:
        if self.sequencer.stopping:
            return None
        error = self.sequencer.stop()
        if error is None:
            self.memory.note(active=False)
        return error

    def _finish_stops(self) -> None:
        heads = self.driver.heads
        if self.control.stops and not self.sequencer.active and heads is not None and self.driver.settle() is None:
            log.info("sequencer stopped", head=heads.unsafe)
            self.control.finish_stops(heads.unsafe.hash)
            self._publish()

    # --- finality and reads ----------------------------------------------------------------------------------------

    async def _finalize(self) -> float:
        heads = self.driver.heads
        if heads is None or self.unconfirmed is not None:
            return POLL_SECONDS
        need = self.finality.next(heads.finalized)
        if need is None:
            return IDLE_SECONDS
        if isinstance(need, Finalize):
            async with self.lock:
                self.driver.finalize(need.block)
            self.finality.done()
            log.info("finalized", block=need.block)
            self._publish()
            self.drive.wake.set()
            return 0.0
        if not self.finality.checked:
            self.origins.forget()
        found = await self.origins.ref(need.number)
        self.finality.give_canonical(need, found)
        return 0.0 if found is not None else POLL_SECONDS

    async def _read(self) -> float:
        await self.reader.step()
        self._finish_stops()
        return IDLE_SECONDS

    async def _watch(self) -> float:
        """Notices that the engine is away also while there is nothing else to ask of it."""
        if self.client.silent >= WATCH_SECONDS:
            await self.client.check_chain()
        return max(0.0, WATCH_SECONDS - self.client.silent)

    def _engine_status(self) -> EngineStatus:
        sequencer = self.sequencer
        return self.status.status(self.driver.reset, self.driver.heads, sequencer.enabled, sequencer.active)

    def _publish(self) -> None:
        self.status.publish(self._engine_status())
        self.unsafe.heads_moved()


def build(config: EngineConfig, bus: Bus, meter: Meter) -> EngineStage:
    """Makes the stage; its servers are bound at once."""
    return EngineStage(config, bus, meter)
