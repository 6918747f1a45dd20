"""In derivation's place for `rollup-node batches`: reads a range of L1 blocks and writes down every batch in it."""

import time

import msgspec
import orjson

from rollup_node.ipc.bus.bus import Bus
from rollup_node.node.inspect.listed_batch import ListedBatch, batch_text, batch_values
from rollup_node.node.inspect.listing import Listing
from rollup_node.stages.derivation.pipeline.data_source import data_items, wanted_blobs
from rollup_node.stages.derivation.reasons.reasons import Why
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.io.output import write_text
from rollup_node.stages.io.task import EXIT_REPORTED, ExitRequested, PeriodicTask
from rollup_node.stages.messages.base import Health
from rollup_node.stages.messages.blobs import BlobsRequest, BlobsResponse, BlobsUnavailable
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest, L1BlockUnavailable
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.types import Address, BlobRef, Hash, L1Block

REPEAT_SECONDS = 0.3
PATIENCE_SECONDS = 15.0
WINDOW = 64


class ListingConfig(msgspec.Struct, frozen=True):
    """The range of L1 blocks, ends included. `batcher` None: the genesis config's with the range's updates. Lines go
    to the descriptor `output`, the one line of a failure to `errors`."""

    rollup: RollupConfig
    first: int
    last: int
    batcher: Address | None
    as_json: bool
    output: int
    errors: int


class ListingStage:
    """State: the blocks and blobs that are at hand ahead of the one being read."""

    def __init__(self, config: ListingConfig, bus: Bus, meter: Meter) -> None:
        self._config = config
        self._next = config.first
        self._blocks: dict[int, L1Block] = {}
        self._contents: dict[Hash, BlobsResponse] = {}
        self._listing: Listing | None = None
        self._opened: tuple[L1Block, tuple[BlobRef, ...]] | None = None
        self._problem = ""
        self._troubles: list[str] = []
        self._stuck_since = time.monotonic()
        self._said: dict[object, float] = {}
        self._schedule = config.rollup.schedule()
        self._work = PeriodicTask("list", self._step)
        self.periodic_tasks = [self._work]
        self._l1 = bus.connect("l1.blocks", self._on_l1)
        self._blobs = bus.connect("blobs.contents", self._on_blobs)
        self._publisher = bus.publish("status.derivation")
        bus.dispatch("work.derivation")

    async def start(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    def reset(self, error: Exception) -> None:
        """Has nothing that could be reset."""

    def report(self, problems: tuple[str, ...]) -> None:
        """Tells what is wrong."""
        self._publisher.set(Health(problems))

    def _on_l1(self, message: L1BlockResponse | L1BlockUnavailable) -> None:
        if isinstance(message, L1BlockUnavailable):
            if message.error is not None:
                name = f"L1 block {message.number}"
                self._problem = message.error if name in message.error else f"{name}: {message.error}"
            elif message.number == self._next:
                self._problem = f"L1 block {message.number} does not exist yet, the L1 head is {message.head}"
        elif self._next <= message.block.header.number <= self._config.last:
            self._blocks[message.block.header.number] = message.block
        self._work.wake.set()

    def _on_blobs(self, message: BlobsResponse | BlobsUnavailable) -> None:
        if isinstance(message, BlobsResponse):
            self._contents[message.block_hash] = message
        else:
            self._problem = message.error
        self._work.wake.set()

    async def _step(self) -> float:
        lines = self._read()
        if lines:
            self._stuck_since, self._problem = time.monotonic(), ""
            await write_text(self._config.output, "".join(lines))
            await write_text(self._config.errors, "".join(self._troubles))
            self._troubles.clear()
        if self._next > self._config.last:
            raise ExitRequested()
        if self._problem and time.monotonic() - self._stuck_since > PATIENCE_SECONDS:
            await write_text(self._config.errors, f"rollup-node: {self._problem}\n")
            raise ExitRequested(EXIT_REPORTED)
        self._ask(time.monotonic())
        return REPEAT_SECONDS

    def _read(self) -> list[str]:
        """Reads as many blocks as are there; the lines of their batches, with an empty one for each block."""
        lines = []
        while self._next <= self._config.last and (batches := self._read_next()) is not None:
            lines += ["", *(self._line(batch) for batch in batches)]
            self._next += 1
        return lines

    def _read_next(self) -> list[ListedBatch] | None:
        if self._opened is None:
            block = self._blocks.pop(self._next, None)
            if block is None:
                return None
            if self._listing is None:
                self._listing = Listing(self._config.rollup, block, self._config.batcher)
            self._opened = block, self._listing.open(block)
        block, wanted = self._opened
        contents = self._contents.pop(block.header.hash, None)
        if wanted and contents is None:
            return None
        assert self._listing is not None
        found = self._listing.batches(contents.contents if contents is not None else ())
        batches = []
        for each in found:
            if isinstance(each, ListedBatch):
                batches.append(each)
            elif each.reason.why is not Why.SENDER:
                self._troubles.append(f"rollup-node: L1 {block.header.number}: {each}\n")
        self._opened = None
        return batches

    def _line(self, batch: ListedBatch) -> str:
        text = orjson.dumps(batch_values(batch)).decode() if self._config.as_json else batch_text(batch)
        return text + "\n"

    def _ask(self, now: float) -> None:
        first = self._next
        while first in self._blocks or (self._opened is not None and first == self._next):
            first += 1
        last = min(self._config.last, self._next + WINDOW - 1)
        if first <= last and self._due("l1", now):
            self._l1.send(L1BlocksRequest(first, last - first + 1))
        if self._opened is not None and self._opened[1]:
            self._want_blobs(*self._opened, True, now)
        for block in self._blocks.values():
            batcher = self._config.batcher or self._config.rollup.genesis.system_config.batcher
            rules = self._schedule.l1(block.header.timestamp)
            self._want_blobs(block, wanted_blobs(data_items(block, batcher, rules)), False, now)

    def _want_blobs(self, block: L1Block, blobs: tuple[BlobRef, ...], urgent: bool, now: float) -> None:
        if blobs and block.header.hash not in self._contents and self._due((block.header.hash, urgent), now):
            self._blobs.send(BlobsRequest(block.ref, blobs, urgent))

    def _due(self, name: object, now: float) -> bool:
        if now - self._said.get(name, -REPEAT_SECONDS) < REPEAT_SECONDS:
            return False
        self._said[name] = now
        return True


def build(config: ListingConfig, bus: Bus, meter: Meter) -> ListingStage:
    """The stage for the runtime."""
    return ListingStage(config, bus, meter)
