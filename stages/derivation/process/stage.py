"""The derivation process: brings the deriver what it needs, and its attributes to the engine.

Everything is asked for again while it is missing, so that a restart of any other process costs nothing but time."""

import time
from collections.abc import Hashable
from typing import Any

from rollup_node.ipc.bus.bus import Bus, Client, ProcessId
from rollup_node.stages.derivation.config import DerivationConfig
from rollup_node.stages.derivation.pipeline.deriver import Deriver, Output
from rollup_node.stages.derivation.pipeline.outputs import (
    Attributes,
    AwaitSafeHead,
    NeedBlobs,
    NeedDecoded,
    NeedL1Block,
    NeedL2Blocks,
    NeedReset,
)
from rollup_node.stages.derivation.process.decoding_client import Decoding
from rollup_node.stages.derivation.process.derivation_log import Journal
from rollup_node.stages.derivation.process.l1_buffer import L1Buffer
from rollup_node.stages.derivation.process.prefetch import LookAhead
from rollup_node.stages.derivation.process.throttle import Pacer
from rollup_node.stages.derivation.reasons.reasons import Dropped
from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.base import Health
from rollup_node.stages.messages.blobs import BlobContent, BlobsRequest, BlobsResponse, BlobsUnavailable
from rollup_node.stages.messages.derivation import DerivationStatus, DropsRequest
from rollup_node.stages.messages.engine import (
    AttributesOutcome,
    AttributesReady,
    AttributesResult,
    EngineStatus,
    L2BlocksRequest,
    L2BlocksResponse,
    PipelineStart,
    StartRequest,
)
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest, L1BlockUnavailable
from rollup_node.stages.protocol.types import Hash

log = get_logger("derivation")

REPEAT_SECONDS = 0.5
PREFETCH_SECONDS = 1.0
SLICE_SECONDS = 0.05
BLOBS_GONE_SECONDS = 12.0
MAX_PREFETCHED = 24 << 20


class DerivationStage:
    """State: the deriver with what it waits for, the attributes given to the engine and not confirmed, and what was
    fetched ahead."""

    def __init__(self, config: DerivationConfig, bus: Bus, meter: Meter) -> None:
        self.deriver = Deriver(config.rollup, config.l1_chain, span_overlap_check=config.span_overlap_check)
        self._journal = Journal(meter, log)
        self._start: PipelineStart | None = None
        self._safe: AttributesResult | None = None
        self._derived: AttributesReady | None = None
        self._wanted_reset: str | None = None
        self._engine_reset = 0
        self._sequence = 0
        self._blocks_derived = 0
        self._waiting: Output | None = None
        self._no_block: L1BlockUnavailable | None = None
        self._buffer = L1Buffer(config.window)
        self._look_ahead = LookAhead(config.rollup)
        self._blobs: dict[Hash, tuple[BlobContent, ...]] = {}
        self._missing_blobs: tuple[Hash, float] = (b"", 0.0)
        self._pacer, self._prefetch_pacer = Pacer(REPEAT_SECONDS), Pacer(PREFETCH_SECONDS)
        self._problems: tuple[str, ...] = ()
        self._derive = PeriodicTask("derive", self._step)
        self.periodic_tasks = [self._derive]
        pool = None if config.inline_decoding else bus.dispatch("work.derivation")
        self._decoding = Decoding(pool, self._derive.wake.set)
        self._l1: Client = bus.connect("l1.blocks", self._on_l1)
        self._blob_client: Client = bus.connect("blobs.contents", self._on_blobs)
        self._engine: Client = bus.connect("engine.blocks", self._on_engine)
        bus.subscribe("status.engine", self._on_engine_status)
        self._drops_are_read = config.drops_are_read
        self._drops = bus.serve("derivation.drops", self._on_want_drops)
        self._publisher = bus.publish("status.derivation")

    # --- what the runtime calls ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Gives up the tasks under way."""
        await self._decoding.close()

    def reset(self, error: Exception) -> None:
        """Asks for a new start."""
        self._wanted_reset = str(error)

    def report(self, problems: tuple[str, ...]) -> None:
        """Takes what the runtime knows to be wrong."""
        self._problems = problems
        self._tell()

    # --- what comes in ---------------------------------------------------------------------------------------------

    def _on_l1(self, message: L1BlockResponse | L1BlockUnavailable) -> None:
        if isinstance(message, L1BlockUnavailable):
            self._no_block = message
        elif self._buffer.add(message.block):
            self._no_block = None
        self._derive.wake.set()

    def _on_blobs(self, message: BlobsResponse | BlobsUnavailable) -> None:
        if isinstance(message, BlobsResponse):
            self._blobs[message.block_hash] = message.contents
            self._look_ahead.add_blobs(message.block_hash, message.contents)
        elif message.not_found:
            self._blobs_missing(message.block_hash, time.monotonic())
        self._derive.wake.set()

    def _blobs_missing(self, block_hash: Hash, now: float) -> None:
        """Nobody has them: a node may still be importing the block, so that only a lasting lack means a reorg."""
        if self._missing_blobs[0] != block_hash:
            self._missing_blobs = block_hash, now
        elif now - self._missing_blobs[1] > BLOBS_GONE_SECONDS:
            self.deriver.blobs_gone(block_hash)

    def _on_engine(self, message: PipelineStart | AttributesResult | L2BlocksResponse) -> None:
        if isinstance(message, PipelineStart):
            self._begin(message)
        elif isinstance(message, AttributesResult):
            self._applied(message)
        elif self._start is not None and message.reset == self._start.reset and message.error is None:
            self.deriver.add_l2_blocks(message.first, message.last, message.blocks)
        self._derive.wake.set()

    def _on_engine_status(self, message: EngineStatus | Health) -> None:
        if isinstance(message, EngineStatus):
            self._engine_reset = message.reset

    def _on_want_drops(self, peer: ProcessId, want: DropsRequest) -> None:
        self._drops.send(peer, self._journal.history.answer(want))
        if self._drops_are_read:
            self._derive.wake.set()

    def _begin(self, start: PipelineStart) -> None:
        if self._start is not None and start.reset <= self._start.reset:
            return
        log.info("derivation begins", safe=start.safe_head, base=start.base, reset=start.reset)
        self._start = start
        self._safe = AttributesResult(start.reset, 0, AttributesOutcome.ACCEPTED, start.safe_head, start.safe_config)
        self._derived = self._wanted_reset = self._waiting = self._no_block = None
        self._sequence = 0
        self.deriver.reset(start)
        self._buffer.begin(start.base.number)
        self._look_ahead.stop()
        self._journal.begin()
        self._blobs.clear()
        self._decoding.forget_queue()
        self._pacer.clear()
        self._prefetch_pacer.clear()

    def _applied(self, message: AttributesResult) -> None:
        derived = self._derived
        if derived is None or (message.reset, message.sequence) != (derived.reset, derived.sequence):
            return
        self._derived, self._safe = None, message
        if message.outcome is AttributesOutcome.REFUSED:
            self.deriver.refused()
            return
        if message.outcome is AttributesOutcome.REPLACED_BY_DEPOSITS:
            self.deriver.flush_for_deposits_only()
        self._blocks_derived += 1
        log.debug("block derived", block=message.safe_head, origin=derived.derived_from, outcome=message.outcome)

    # --- the loop --------------------------------------------------------------------------------------------------

    async def _step(self) -> float:
        """Derives for a slice of time, then asks for what is missing."""
        self._read_ahead()
        waits = self._run()
        self._ask(time.monotonic())
        self._tell()
        return REPEAT_SECONDS if waits else 0.0

    def _run(self) -> bool:
        """Whether the deriver came to wait for something."""
        if self._safe is None or self._wanted_reset is not None:
            return True
        end = time.monotonic() + SLICE_SECONDS
        while time.monotonic() < end:
            if self._drops_are_read and self._journal.history.is_full:
                self._waiting = None
                return True
            output = self.deriver.step(self._safe.safe_head, self._safe.safe_config)
            if not self._meets(output):
                self._waiting = output
                return True
        self._waiting = None
        return False

    def _meets(self, output: Output) -> bool:
        """Handles an output; False when the deriver must wait."""
        deriver = self.deriver
        match output:
            case Dropped():
                self._journal.dropped(output)
                return True
            case NeedL1Block():
                block = self._buffer.take(None if deriver.origin is None else deriver.origin.hash)
                if block is None:
                    return False
                if deriver.origin is not None:
                    self._blobs.pop(deriver.origin.hash, None)
                if not deriver.add_l1_block(block):
                    return False
                self._journal.at_block(block.ref)
                return True
            case NeedBlobs():
                return self._give_blobs(output)
            case NeedDecoded():
                result = self._decoding.result(output)
                if result is None:
                    return False
                self._journal.channel_read(output, result)
                return deriver.add_decoded(output.key, result)
            case Attributes():
                self._give(output)
            case NeedReset():
                self._wanted_reset = str(output.reason)
                self._journal.reset_wanted(self._wanted_reset)
            case NeedL2Blocks() | AwaitSafeHead():
                pass
        return False

    def _give_blobs(self, need: NeedBlobs) -> bool:
        contents = self._blobs.pop(need.block.hash, None)
        return contents is not None and self.deriver.add_blobs(need.block.hash, contents)

    def _give(self, output: Attributes) -> None:
        if self._start is None:
            return
        self._sequence += 1
        self._derived = AttributesReady(
            self._start.reset,
            self._sequence,
            output.parent,
            output.attributes,
            output.derived_from,
            output.concluding,
        )

    def _read_ahead(self) -> None:
        """Takes new blocks into the look-ahead and has the channels read that are complete there."""
        start, look_ahead, origin = self._start, self._look_ahead, self.deriver.origin
        if start is None or self._safe is None:
            return
        at = look_ahead.at
        if origin is not None and (at is None or at.number < origin.number):
            config = self.deriver.origin_config
            if config is not None:
                look_ahead.start_behind(origin, config)
        for block in self._buffer.linked():
            at = look_ahead.at
            if at is None:
                if block.header.hash != start.base.hash:
                    return
                look_ahead.start_at(block, start.base_config)
            elif block.header.number > at.number and not look_ahead.add_block(block):
                look_ahead.stop()
                return
        for need in look_ahead.complete_channels(self._safe.safe_head.l1_origin.number):
            self._decoding.ahead(need)

    # --- what goes out ---------------------------------------------------------------------------------------------

    def _ask(self, now: float) -> None:
        """Says again what is missing."""
        reset = 0 if self._start is None else self._start.reset
        if self._start is None or self._wanted_reset is not None or self._engine_reset > reset:
            self._say(self._engine, "start", StartRequest(reset, self._wanted_reset), now)
        if self._start is None or self._wanted_reset is not None:
            return
        if self._derived is not None:
            self._say(self._engine, "derived", self._derived, now)
        if isinstance(self._waiting, NeedL2Blocks):
            need = self._waiting
            self._say(self._engine, "l2", L2BlocksRequest(reset, need.first, need.last), now)
        missing = self._buffer.missing
        if missing is not None:
            self._say(self._l1, "l1", L1BlocksRequest(*missing), now)
        if isinstance(self._waiting, NeedBlobs):
            self._say(self._blob_client, "blobs", BlobsRequest(self._waiting.block, self._waiting.blobs, True), now)
        self._prefetch_blobs(now)

    def _say(self, client: Client, name: str, message: Any, now: float) -> None:
        if self._pacer.due(name, message, now):
            client.send(message)

    def _prefetch_blobs(self, now: float) -> None:
        held = sum(len(content.data or b"") for contents in self._blobs.values() for content in contents)
        names: set[Hashable] = set()
        for need in self._look_ahead.needs():
            if held > MAX_PREFETCHED:
                break
            held += 131072 * len(need.blobs)
            names.add(need.block.hash)
            want = BlobsRequest(need.block, need.blobs, False)
            if need != self._waiting and self._prefetch_pacer.due(need.block.hash, want, now):
                self._blob_client.send(want)
        self._prefetch_pacer.keep(names)

    def _tell(self) -> None:
        reset = 0 if self._start is None else self._start.reset
        idle = self._is_idle()
        self._journal.idle(idle)
        self._publisher.set(self._journal.drops)
        self._publisher.set(DerivationStatus(reset, self.deriver.origin, idle, self._blocks_derived))
        waits = None if idle or self._start is None else self._waiting
        problems = self._journal.problems(waits, self._wanted_reset, self.deriver.waiting, time.monotonic())
        self._publisher.set(Health((*self._problems, *problems)))

    def _is_idle(self) -> bool:
        """Whether the L1 blocks there are have been used up."""
        need, answer = self._waiting, self._no_block
        if not isinstance(need, NeedL1Block) or answer is None or answer.error is not None:
            return False
        return answer.number == need.number and answer.head < need.number


def build(config: DerivationConfig, bus: Bus, meter: Meter) -> DerivationStage:
    """The stage for the runtime."""
    return DerivationStage(config, bus, meter)
