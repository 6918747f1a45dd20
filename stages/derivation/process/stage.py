"""The derivation process: brings the deriver what it needs, and its attributes to the engine."""

import time
from typing import NamedTuple

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.ipc.bus.timers import until_aligned
from rollup_node.stages.derivation.config import DerivationConfig
from rollup_node.stages.derivation.pipeline import outputs
from rollup_node.stages.derivation.pipeline.deriver import Deriver, Output
from rollup_node.stages.derivation.process.alt_da_client import AltDaClient, InputMessage
from rollup_node.stages.derivation.process.batch_watch import WAITING_WINDOW, BatchParents, BatchWatch, UpgradeWatch
from rollup_node.stages.derivation.process.decoding_client import DecodingClient
from rollup_node.stages.derivation.process.derivation_log import DerivationLog
from rollup_node.stages.derivation.process.l1_buffer import L1Buffer
from rollup_node.stages.derivation.process.prefetch import MAX_PARSED, Prefetcher
from rollup_node.stages.derivation.process.requests import REPEAT_SECONDS, Requests, WaitClock
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.io import tracing
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import PacedPublisher, PeriodicTask, Stage
from rollup_node.stages.messages import engine
from rollup_node.stages.messages.attributes_channel import AttributesSender
from rollup_node.stages.messages.base import Endpoints, Health, Problem, QueueLength
from rollup_node.stages.messages.blobs import BlobsRequest, BlobsResponse, BlobsUnavailable
from rollup_node.stages.messages.derivation import DerivationStatus, DropsRequest
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest, L1BlockUnavailable
from rollup_node.stages.protocol.config import SystemConfig
from rollup_node.stages.protocol.pacing import backoff
from rollup_node.stages.protocol.types import Hash, L1BlockRef, L2BlockRef

log = Logger("derivation")

SLICE_SECONDS = 0.05
"""How long derivation runs before the process looks at its messages again."""
IDLE_SECONDS = 10.0
"""Between two requests for an L1 block that does not exist yet: the l1 process sends it as soon as it does, and is
asked at once if it has restarted."""
BLOBS_NOT_FOUND_SECONDS, MAX_BLOBS_NOT_FOUND_SECONDS = 12.0, 300.0
"""Until blobs that stay missing are a reset, and at most, as that doubles with each reset for the same block."""


class _MissingBlobs(NamedTuple):
    """The L1 block whose blobs no source has, since when, and how many resets followed."""

    block_hash: Hash
    since: float
    resets: int = 0


_FOUND = _MissingBlobs(b"", 0.0)


class DerivationStage(Stage):
    """The deriver with what it waits for, the attributes without an answer, and what was fetched ahead."""

    def __init__(self, config: DerivationConfig, bus: Bus, meter: Meter) -> None:
        self.deriver = Deriver(config.rollup, config.l1_chain, span_overlap_check=config.span_overlap_check)
        self._meter, self.derivation_log = meter, DerivationLog(meter, log)
        self._batches = BatchWatch(config.rollup.seq_window_size, log)
        self._upgrades = UpgradeWatch(config.rollup, log)
        self._start: engine.PipelineStart | None = None
        self._safe: tuple[L2BlockRef, SystemConfig] | None = None
        self._run = AttributesSender(config.ahead)
        self._reset_reason: str | None = None
        self._engine_reset = 0
        self._managed = config.managed
        self._provided: L1BlockRef | None = None
        self._unmet: Output | None = None
        self._block_unavailable: L1BlockUnavailable | None = None
        self._window = max(1, config.window)
        self._buffer = L1Buffer(self._window)
        self._prefetcher = Prefetcher(config.rollup)
        self._blobs: BlobsResponse | None = None
        self._blobs_not_found = _FOUND
        self._problems: tuple[Problem, ...] = ()
        self._waits = WaitClock()
        self._task = PeriodicTask("derive", self._step)
        self.periodic_tasks = [self._task]
        self._decoding = DecodingClient(bus.dispatch("work.derivation"), self._task.wake.set)
        self._parents = BatchParents(config.rollup, self._decoding.known)
        blobs = bus.connect("blobs.contents", self._on_blobs)
        l1 = bus.connect("l1.blocks", self._on_l1, self._on_l1_restart)
        self._engine = bus.connect("engine.blocks", self._on_engine)
        self._requests = Requests(l1, blobs, self._engine)
        self._alt_da: AltDaClient | None = None
        if self.deriver.alt_da is not None:
            self._alt_da = AltDaClient(self.deriver.alt_da, blobs, meter, log)
            bus.subscribe("status.l1", self._alt_da.on_l1_status)
        bus.subscribe("status.engine", self._on_engine_status)
        self._drops_are_read = config.drops_are_read
        self._drops = bus.serve("derivation.drops", self._on_drops_request)
        self._publisher = bus.publish("status.derivation")
        self._counts = PacedPublisher(self._publisher.set)

    # --- called by the runtime -------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Cancel the running decoding tasks."""
        await self._decoding.close()

    def reset(self, error: Exception) -> None:
        self._reset_reason = str(error)

    def report(self, problems: tuple[Problem, ...]) -> None:
        """Publish the problems that the runtime sees, with those of derivation."""
        self._problems = problems
        self._publish()

    # --- messages --------------------------------------------------------------------------------------------------

    def _on_l1_restart(self) -> None:
        self._requests.restart()
        self._task.wake.set()

    def _on_l1(self, message: L1BlockResponse | L1BlockUnavailable) -> None:
        if isinstance(message, L1BlockUnavailable):
            self._block_unavailable = message
        elif self._buffer.add(message.block):
            self._block_unavailable = None
        self._task.wake.set()

    def _on_blobs(self, message: BlobsResponse | BlobsUnavailable | InputMessage) -> None:
        if isinstance(message, InputMessage):
            if self._alt_da is not None:
                self._alt_da.on_input(message, time.monotonic())
        elif isinstance(message, BlobsResponse):
            if message.block_hash == self._blobs_not_found.block_hash:
                self._blobs_not_found = _FOUND
            known = self._prefetcher.add_blobs(message.block_hash, message.contents)
            if not known and not self._prefetcher.has_frames(message.block_hash):
                self._blobs = message
        elif message.not_found:
            self._on_blobs_not_found(message.block_hash, time.monotonic())
        self._task.wake.set()

    def _on_blobs_not_found(self, block_hash: Hash, now: float) -> None:
        """Reset only when the blobs stay missing: a beacon node may still be importing the block [T8].

        Those of later blocks, which are fetched ahead, are not waited for yet."""
        if not isinstance(self._unmet, outputs.NeedBlobs) or self._unmet.block.hash != block_hash:
            return
        missing = self._blobs_not_found
        if missing.block_hash != block_hash:
            self._blobs_not_found = _MissingBlobs(block_hash, now)
        elif now - missing.since > backoff(missing.resets + 1, BLOBS_NOT_FOUND_SECONDS, MAX_BLOBS_NOT_FOUND_SECONDS):
            self._blobs_not_found = _MissingBlobs(block_hash, now, missing.resets + 1)
            self.deriver.blobs_not_found(block_hash)

    def _on_engine(self, message: engine.PipelineStart | engine.AttributesResult | engine.L2BlocksResponse) -> None:
        if isinstance(message, engine.PipelineStart):
            self._restart(message)
        elif isinstance(message, engine.AttributesResult):
            if self._run.take(message, time.monotonic()):
                self.deriver.cancel_ahead()
        elif self._start is not None and message.reset == self._start.reset and message.error is None:
            self.deriver.add_l2_blocks(message.first, message.last, message.blocks)
        self._task.wake.set()

    def _on_engine_status(
        self, message: engine.EngineStatus | engine.Halting | engine.ForkDoubts | Endpoints | QueueLength | Health
    ) -> None:
        if isinstance(message, engine.EngineStatus):
            self._engine_reset = message.reset
            if message.provided_l1 != self._provided:
                self._provided = message.provided_l1
                self._task.wake.set()

    def _on_drops_request(self, peer: ProcessId, request: DropsRequest) -> None:
        self._drops.send(peer, self.derivation_log.buffer.answer(request))
        if self._drops_are_read:
            self._task.wake.set()

    def _restart(self, start: engine.PipelineStart) -> None:
        if self._start is not None and start.reset <= self._start.reset:
            return
        log.info("starting derivation", safe=start.safe_head, base=start.base, reset=start.reset % engine.STARTS_A_LIFE)
        self._start = start
        self._safe = start.safe_head, start.safe_config
        self._reset_reason = self._unmet = self._block_unavailable = self._blobs = None
        self._run.restart(start.reset)
        self.deriver.reset(start.base, start.base_config)
        self._buffer.restart(start.base.number)
        self._prefetcher.clear()
        self.derivation_log.restart()
        self._batches.restart(start.safe_head.l1_origin)
        self._decoding.clear_queue()
        self._parents.restart()
        self._requests.restart()
        if self._alt_da is not None:
            self._alt_da.restart(start.reset)

    def _take_answer(self, answer: engine.AttributesResult) -> None:
        """Take the engine's answer to the attributes that the deriver waits for."""
        self._safe = answer.safe_head, answer.safe_config
        if answer.outcome is not engine.AttributesOutcome.ACCEPTED:
            self._run.cancel_ahead()
        if answer.outcome is engine.AttributesOutcome.REFUSED:
            self.deriver.attributes_refused()
            return
        if answer.outcome is engine.AttributesOutcome.REPLACED_BY_DEPOSITS:
            self.deriver.flush_for_deposits_only()
        if self._batches.derived(answer.safe_head.l1_origin, answer.derived_from):
            self._upgrades.derived()
            if (interval := self._batches.interval) is not None:
                self._meter.set("batch_interval_seconds", interval)
        number = answer.safe_head.number
        tracing.end("derivation.block", number, answer.derived_from.hash, number=number, outcome=answer.outcome.value)
        log.debug("block derived", block=answer.safe_head, origin=answer.derived_from, outcome=answer.outcome)

    # --- the loop --------------------------------------------------------------------------------------------------

    async def _step(self) -> float:
        """Derive for a slice of time, then requests what is missing."""
        self._waits.works()
        self._prefetch()
        self._notice_reorg()
        waits = self._derive()
        self._look_ahead()
        self._request(time.monotonic())
        self._publish()
        is_idle = waits and self._is_idle()
        self.derivation_log.waits_for(self._unmet if waits and not is_idle else None)
        if not waits:
            return 0.0
        if is_idle:
            self._waits.rests()
            return until_aligned(time.monotonic(), IDLE_SECONDS)
        self._waits.waits_for(self._unmet)
        return REPEAT_SECONDS

    def _notice_reorg(self) -> None:
        """While the engine process waits before an activation block, no L1 block is read that would show a reorg."""
        origin = self.deriver.origin
        if origin is None or self._buffer.first != origin.number + 1 or not self._parents.waits(self._run.current):
            return
        if (block := self._buffer.reorged(origin.hash)) is not None:
            self.deriver.note_l1_block(block)

    def _derive(self) -> bool:
        """Step the deriver; whether it has an unmet need now."""
        if self._safe is None or self._reset_reason is not None:
            return True
        end = time.monotonic() + SLICE_SECONDS
        while time.monotonic() < end:
            if self._drops_are_read and self.derivation_log.buffer.is_full:
                self._unmet = None
                return True
            answer = self._run.take_answer()
            if answer is not None:
                self._take_answer(answer)
            output = self.deriver.step(*self._safe)
            if not self._handle(output):
                self._unmet = output
                return True
        self._unmet = None
        return False

    def _handle(self, output: Output) -> bool:
        """Handle an output; False when the deriver must wait."""
        match output:
            case Dropped():
                self.derivation_log.dropped(output)
                self._batches.dropped(output)
                if self._safe is not None:
                    self._upgrades.dropped(output, self._safe[0])
                return True
            case outputs.NeedL1Block(number=number):
                return self._add_l1_block(number)
            case outputs.NeedChallenges(number=number):
                return self._add_challenges(number)
            case outputs.NeedBlobs():
                return self._add_blobs(output)
            case outputs.NeedDecoded():
                result = self._decoding.result(output)
                if result is None:
                    return False
                self._parents.read(output.key)
                self.derivation_log.channel_decoded(output, result)
                return self.deriver.add_decoded(output.key, result)
            case engine.AttributesReady():
                tracing.begin("derivation.block", output.parent.number + 1)
                self._run.derived(output, time.monotonic())
                return self._run.is_answered
            case outputs.NeedReset():
                self._reset_reason = str(output.reason)
                self.derivation_log.reset_needed(self._reset_reason)
            case outputs.NeedL2Blocks() | outputs.NeedInput() | outputs.AwaitSafeHead():
                pass
        return False

    def _add_l1_block(self, number: int) -> bool:
        if self._buffer.first > number:
            self._buffer.restart(number)  # challenges were read ahead of the pipeline
        origin = self.deriver.origin
        if not self._is_provided(origin):
            return False
        block = self._buffer.take(None if origin is None else origin.hash)
        if block is None or not self.deriver.add_l1_block(block, self._prefetcher.take_frames(block.ref)):
            return False
        self.derivation_log.at_block(block.ref)
        self._batches.at_block(block.ref)
        return True

    def _is_provided(self, origin: L1BlockRef | None) -> bool:
        """Whether the next L1 block may be read: an interop supervisor, if any, provides it after the base [IOP14]."""
        if not self._managed or origin is None:
            return True
        provided = self._provided
        if provided is None or provided.number != origin.number + 1:
            return False
        if provided.parent_hash != origin.hash:
            text = f"provided next L1 block {provided} does not build on last processed L1 block {origin}"
            self._reset_reason = text
            return False
        return True

    def _add_challenges(self, number: int) -> bool:
        if self._buffer.first != number:
            self._buffer.restart(number)
        known = None if self.deriver.alt_da is None else self.deriver.alt_da.challenges.challenge_origin
        block = self._buffer.take(None if known is None else known.hash)
        return block is not None and self.deriver.add_challenges(block)

    def _add_blobs(self, need: outputs.NeedBlobs) -> bool:
        """Bring the frames of the prefetcher or, where it does not follow, the blobs."""
        frames = self._prefetcher.take_frames(need.block)
        if frames is not None and self.deriver.add_frames(frames):
            return True
        blobs, self._blobs = self._blobs, None
        return blobs is not None and self.deriver.add_blobs(blobs.block_hash, blobs.contents)

    def _look_ahead(self) -> None:
        """Derive more blocks of the span whose block the engine is to answer [ENG40]."""
        if self._reset_reason is not None or not self._run.is_low:
            return
        while self._run.has_room and (output := self.deriver.ahead()) is not None:
            self._run.add(output)

    def _prefetch(self) -> None:
        """Add the buffered blocks to the prefetcher, and start to decode the channels that complete in them."""
        start, prefetcher, origin = self._start, self._prefetcher, self.deriver.origin
        # With Alt-DA the frames are not on L1; their inputs are fetched ahead instead.
        if start is None or self._safe is None or self._alt_da is not None:
            return
        at = prefetcher.at
        if origin is not None and (at is None or at.number < origin.number):
            config = self.deriver.origin_config
            if config is not None:
                prefetcher.start_after(origin, config)
        for block in self._buffer.linked():
            if prefetcher.parsed_bytes > MAX_PARSED:
                break
            at = prefetcher.at
            if at is None:
                if block.header.hash != start.base.hash:
                    return
                prefetcher.start_at(block, start.base_config)
            elif block.header.number > at.number and not prefetcher.add_block(block):
                prefetcher.stop()
                return
        for need in prefetcher.complete_channels(self._safe[0].l1_origin.number):
            self._parents.add(need.key)
            self._decoding.prefetch(need)

    def _request(self, now: float) -> None:
        reset = 0 if self._start is None else self._start.reset
        if self._start is None or self._reset_reason is not None or self._engine_reset > reset:
            self._requests.send(engine.StartRequest(reset, self._reset_reason), now)
        if self._start is None or self._reset_reason is not None:
            return
        for message in self._parents.attach(self._run.due(now)):
            self._engine.send(message)
        if isinstance(self._unmet, outputs.NeedL2Blocks):
            self._requests.send(engine.L2BlocksRequest(reset, self._unmet.first, self._unmet.last), now)
        self._buffer.window = WAITING_WINDOW if self._parents.waits(self._run.current) else self._window
        missing = self._buffer.missing
        if missing is not None:
            self._requests.send(L1BlocksRequest(*missing, self._buffer.taken), now)
        if isinstance(self._unmet, outputs.NeedBlobs):
            self._requests.send(BlobsRequest(self._unmet.block, self._unmet.blobs, True), now)
        self._requests.prefetch_blobs(self._prefetcher.needs(), self._unmet, self._prefetcher.parsed_bytes, now)
        if self._alt_da is not None:
            config = self.deriver.origin_config
            self._alt_da.request(self._buffer.linked(), None if config is None else config.batcher, now)

    def _publish(self) -> None:
        reset = 0 if self._start is None else self._start.reset
        idle = self._is_idle()
        self.derivation_log.idle(idle)
        self.derivation_log.frames_added(self.deriver.events.frames_added)
        self._publisher.set(self.derivation_log.drops)
        # A batcher can have a million batches dropped in a few L1 blocks.
        self._counts.step(lambda: self.derivation_log.drop_counts, self._queue_length)
        settled = None if self._alt_da is None else self._alt_da.settled_l1
        waits = self._waits.waits
        self._publisher.set(DerivationStatus(reset, self.deriver.origin, idle, settled, waits))
        need = None if idle or self._start is None else self._unmet
        problems = self.derivation_log.problems(need, self._reset_reason, self.deriver.stalled_by, time.monotonic())
        watches = (self._batches.problem, self._upgrades.problem)
        problems += [problem for problem in watches if problem is not None]
        problems += [] if self._alt_da is None else self._alt_da.report(time.monotonic())
        self._publisher.set(Health((*self._problems, *problems)))

    def _queue_length(self) -> QueueLength:
        return QueueLength(len(self._buffer), self._decoding.outstanding)

    def _is_idle(self) -> bool:
        """Whether the next L1 block does not exist yet [T2]."""
        need, answer = self._unmet, self._block_unavailable
        if self._managed and isinstance(need, outputs.NeedL1Block) and self.deriver.origin is not None:
            return not self._is_provided(self.deriver.origin)
        if not isinstance(need, outputs.NeedL1Block) or answer is None or answer.error is not None:
            return False
        return answer.number == need.number and answer.head < need.number


build = DerivationStage
