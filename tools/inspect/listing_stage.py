"""The derivation stage of `rollup-node batches`: reads a range of L1 blocks and writes a line for every batch."""

import time
from collections.abc import Iterator, Sequence
from typing import NoReturn

import msgspec

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.pipeline.block_frames import blob_refs, data_items
from rollup_node.stages.derivation.pipeline.channel_bank import PartialChannel, ReadyChannel
from rollup_node.stages.derivation.pipeline.channel_reader import ChannelReader, span_rules
from rollup_node.stages.derivation.pipeline.ingestion import FrameIngestion
from rollup_node.stages.derivation.pipeline.l1_origins import L1Traversal
from rollup_node.stages.derivation.pipeline.outputs import Flow, NeedDecoded
from rollup_node.stages.derivation.reasons.l1 import SenderNotBatcher
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.derivation.tasks import run
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import EXIT_REPORTED, ExitRequested, PeriodicTask, Stage
from rollup_node.stages.messages.base import Health, Problem
from rollup_node.stages.messages.blobs import BlobContent, BlobsRequest, BlobsResponse, BlobsUnavailable
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest, L1BlockUnavailable
from rollup_node.stages.protocol.config import RollupConfig, end_text
from rollup_node.stages.protocol.types import Address, BlobRef, Hash, L1Block, L1BlockRef
from rollup_node.tools.inspect.batch_summary import LISTED, BatchSummary, batch_values, block_numbers, hashes_digest
from rollup_node.tools.inspect.channel_sources import BlockSources, batch_shape
from rollup_node.tools.inspect.row_formats import RowFormat, RowFormatter, write_text
from rollup_node.tools.inspect.status_screen import Patience


class BatchListing:
    """Reads consecutive L1 blocks, beginning without open channels.

    The batcher is that of the genesis config with the updates in the range, or the one that is given. `events` take
    what is read."""

    def __init__(
        self,
        config: RollupConfig,
        first: L1Block,
        batcher: Address | None = None,
        events: BlockSources | None = None,
    ) -> None:
        schedule, self._events = config.schedule(), events or BlockSources(config)
        self._schedule = schedule
        self._fixed_batcher = batcher
        self._traversal = L1Traversal(schedule, self._events, first.ref, config.genesis.system_config)
        self._ingestion = FrameIngestion(self._traversal.rules, self._events)
        self._reader = ChannelReader(span_rules(config), self._events)

    @property
    def origin(self) -> L1BlockRef:
        """The L1 block being read."""
        return self._traversal.origin

    @property
    def batcher(self) -> Address:
        """The batcher in force in the L1 block being read."""
        return self._traversal.batcher if self._fixed_batcher is None else self._fixed_batcher

    @property
    def live_channels(self) -> tuple[PartialChannel, ...]:
        """The channels that frames may still complete, oldest first."""
        oldest = self._traversal.origin.number - self._traversal.rules.channel_timeout
        return tuple(open_channel for open_channel in self._ingestion.open_channels if open_channel.opened >= oldest)

    def open(self, block: L1Block) -> tuple[BlobRef, ...]:
        """Start to read the next block, first of all `first`. Returns the blobs whose contents `batches` needs."""
        traversal = self._traversal
        before = traversal.origin.timestamp
        traversal.advance(block)
        if self._schedule.switches_stages(before, block.header.timestamp):
            self._ingestion.replace_channels(traversal.rules)
        self._ingestion.source.open(block, self.batcher, traversal.rules)
        return blob_refs(data_items(block, self.batcher, traversal.rules))

    def batches(self, contents: Sequence[BlobContent]) -> Iterator[BatchSummary | Dropped]:
        """Yield the batches and drops of the block, given the contents of its blobs.

        Raises ValueError if they are those of other blobs."""
        traversal, ingestion = self._traversal, self._ingestion
        ingestion.source.add_blobs(traversal.origin.hash, contents)
        while True:
            channel = ingestion.next_channel(traversal.origin, traversal.rules)
            yield from self._drops()
            if channel is None:
                return
            if not isinstance(channel, ReadyChannel):
                raise ValueError(f"the contents are not those of the blobs of L1 block {traversal.origin}")
            yield from self._channel(channel)

    def _drops(self) -> Iterator[Dropped]:
        while self._events.drops:
            yield self._events.drops.popleft()

    def _channel(self, channel: ReadyChannel) -> Iterator[BatchSummary | Dropped]:
        traversal, reader = self._traversal, self._reader
        reader.open(channel, traversal.rules)
        while True:
            popped = reader.pop(traversal.rules, traversal.origin.timestamp)
            yield from self._drops()
            if isinstance(popped, NeedDecoded):
                reader.add_decoded(popped.key, run(popped.task))
            elif popped is Flow.OUT_OF_DATA:
                return
            elif not isinstance(popped, Flow):
                yield _summary(popped, channel, traversal.origin, self._events.transactions)


def _summary(
    batch: SingularBatch | SpanBatch, channel: ReadyChannel, inclusion: L1BlockRef, sources: tuple[Hash, ...]
) -> BatchSummary:
    digest = hashes_digest(batch.transactions)
    count = len(batch.transactions)
    kind, first, blocks = batch_shape(batch)
    parent = batch.parent_hash if isinstance(batch, SingularBatch) else batch.parent_check
    return BatchSummary(
        inclusion=inclusion.number,
        channel=channel.id,
        kind=kind,
        first_timestamp=first,
        blocks=blocks,
        transactions=count,
        parent=parent,
        digest=digest,
        inclusion_time=inclusion.timestamp,
        l1_transactions=sources,
        channel_bytes=len(channel.body),
    )


REPEAT_SECONDS = 0.3
WINDOW = 64


class ListingConfig(msgspec.Struct, frozen=True):
    """The range of L1 blocks, both ends included.

    With `batcher` None it is that of the genesis config with the updates in the range. Batches are written to the
    file descriptor `output`, drops and the error of a failure to `errors`. `timeout`: seconds without progress after
    which the command fails, None for none."""

    rollup: RollupConfig
    first: int
    last: int
    batcher: Address | None
    form: RowFormat
    output: int
    errors: int
    timeout: float | None = None


class ListingStage(Stage):
    """State: the blocks and blobs that were prefetched.

    The last error, and the L1 block that it is about; `_left_at` is the L1 block of the first batch that follows a
    foreign fork, with which the listing ends [LFT9]."""

    def __init__(self, config: ListingConfig, bus: Bus, meter: Meter) -> None:
        self._config = config
        self._next = config.first
        self._blocks: dict[int, L1Block] = {}
        self._contents: dict[Hash, BlobsResponse] = {}
        self._listing: BatchListing | None = None
        self._opened: tuple[L1Block, tuple[BlobRef, ...]] | None = None
        self._error, self._error_at = "", 0
        self._drops: list[Dropped] = []
        self._left_at: int | None = None
        self._rows = RowFormatter(config.form, LISTED)
        self._numbers = block_numbers(config.rollup)
        self._patience = Patience(config.timeout, time.monotonic())
        self._requested_at: dict[object, float] = {}
        self._schedule = config.rollup.schedule()
        self._work = PeriodicTask("list", self._step)
        self.periodic_tasks = [self._work]
        self._l1 = bus.connect("l1.blocks", self._on_l1)
        self._blobs = bus.connect("blobs.contents", self._on_blobs)
        self._publisher = bus.publish("status.derivation")
        bus.dispatch("work.derivation")

    def report(self, problems: tuple[Problem, ...]) -> None:
        """Publish the problems that the runtime sees."""
        self._publisher.set(Health(problems))

    def _on_l1(self, message: L1BlockResponse | L1BlockUnavailable) -> None:
        if isinstance(message, L1BlockUnavailable):
            if message.error is not None:
                name = f"L1 block {message.number}"
                error = str(message.error)
                self._error = error if name in error else f"{name}: {error}"
                self._error_at = message.number
            elif message.number == self._next:
                self._error = f"L1 block {message.number} does not exist yet, the L1 head is {message.head}"
                self._error_at = message.number
        elif self._next <= message.block.header.number <= self._config.last:
            self._blocks[message.block.header.number] = message.block
        self._work.wake.set()

    def _on_blobs(self, message: BlobsResponse | BlobsUnavailable) -> None:
        if isinstance(message, BlobsResponse):
            self._contents[message.block_hash] = message
        else:
            self._error, self._error_at = message.error, 0
        self._work.wake.set()

    async def _step(self) -> float:
        first = self._next
        batches = self._read()
        if self._next > first or self._left_at is not None:
            self._patience.progress(time.monotonic())
            if self._error_at < self._next:
                self._error = ""
            await self._write(batches, self._drops)
            self._drops.clear()
        if self._left_at is not None:
            reason = f"{end_text(self._config.rollup)} ({Code.NETWORK_LEFT.text})"
            await self._fail(f"a batch in L1 block {self._left_at} is of later blocks: {reason}")
        if self._next > self._config.last:
            await self._finish()
            raise ExitRequested()
        now = time.monotonic()
        waiting_for = self._error or self._wanted
        if self._patience.is_over(now):
            await self._fail(waiting_for)
        await self._notice(self._patience.notice(now, waiting_for))
        self._request(now)
        return REPEAT_SECONDS

    async def _write(self, batches: Sequence[BatchSummary], drops: Sequence[Dropped]) -> None:
        await write_text(self._config.output, "".join(map(self._line, batches)))
        lines = [f"rollup-node: L1 {'unknown' if d.origin is None else d.origin.number}: {d}\n" for d in drops]
        await write_text(self._config.errors, "".join(lines))

    async def _fail(self, text: str) -> NoReturn:
        """End the run with a line. Raises ExitRequested."""
        await write_text(self._config.errors, f"rollup-node: {text}\n")
        raise ExitRequested(EXIT_REPORTED)

    async def _notice(self, line: str) -> None:
        await write_text(self._config.errors, line)

    def _read(self) -> list[BatchSummary]:
        """Read the blocks that have arrived. Returns their batches."""
        result: list[BatchSummary] = []
        while self._left_at is None and self._next <= self._config.last and (batches := self._read_next()) is not None:
            result += batches
            self._next += 1
        return result

    def _read_next(self) -> list[BatchSummary] | None:
        if self._opened is None:
            block = self._blocks.pop(self._next, None)
            if block is None:
                return None
            if self._listing is None:
                self._listing = self._new_listing(block)
            self._opened = block, self._listing.open(block)
        block, needed = self._opened
        contents = self._contents.pop(block.header.hash, None)
        if needed and contents is None:
            return None
        assert self._listing is not None
        outputs = self._listing.batches(contents.contents if contents is not None else ())
        batches = []
        for output in outputs:
            if isinstance(output, BatchSummary):
                if self._config.rollup.is_foreign(output.first_timestamp):
                    self._left_at = block.header.number
                    break
                batches.append(output)
            elif output.reason.kind is not SenderNotBatcher:
                self._drops.append(output)
        self._opened = None
        return batches

    def _new_listing(self, block: L1Block) -> BatchListing:
        return BatchListing(self._config.rollup, block, self._config.batcher)

    async def _finish(self) -> None:
        """End: the whole range is read."""
        await write_text(self._config.output, self._rows.end())

    def _line(self, batch: BatchSummary) -> str:
        return self._rows.row(batch_values(batch, self._numbers))

    @property
    def _wanted(self) -> str:
        """What the listing waits for."""
        if self._opened is None:
            return f"L1 block {self._next} has not come from --l1"
        return f"the blobs of L1 block {self._next} have not come from the beacon node"

    def _request(self, now: float) -> None:
        first = self._next
        while first in self._blocks or (self._opened is not None and first == self._next):
            first += 1
        last = min(self._config.last, self._next + WINDOW - 1)
        if first <= last and self._is_due("l1", now):
            self._l1.send(L1BlocksRequest(first, last - first + 1))
        if self._opened is not None and self._opened[1]:
            self._request_blobs(*self._opened, True, now)
        for block in self._blocks.values():
            batcher = self._config.batcher or self._config.rollup.genesis.system_config.batcher
            rules = self._schedule.l1(block.header.timestamp)
            self._request_blobs(block, blob_refs(data_items(block, batcher, rules)), False, now)

    def _request_blobs(self, block: L1Block, blobs: tuple[BlobRef, ...], urgent: bool, now: float) -> None:
        if blobs and block.header.hash not in self._contents and self._is_due((block.header.hash, urgent), now):
            self._blobs.send(BlobsRequest(block.ref, blobs, urgent))

    def _is_due(self, name: object, now: float) -> bool:
        if now - self._requested_at.get(name, -REPEAT_SECONDS) < REPEAT_SECONDS:
            return False
        self._requested_at[name] = now
        return True


build = ListingStage
