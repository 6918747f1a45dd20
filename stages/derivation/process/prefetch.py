"""Reads ahead of derivation: which blobs the blocks at hand need, and which channels will be complete. All of it is
only a prefetch: derivation asks for what it needs whether or not it was foreseen here."""

from collections import deque
from collections.abc import Iterator, Sequence

from rollup_node.stages.derivation.pipeline.channel_bank import ReadyChannel
from rollup_node.stages.derivation.pipeline.channel_reader import need_of, span_rules
from rollup_node.stages.derivation.pipeline.data_source import data_items, wanted_blobs
from rollup_node.stages.derivation.pipeline.events import Trace
from rollup_node.stages.derivation.pipeline.ingestion import Intake
from rollup_node.stages.derivation.pipeline.l1_traversal import L1Traversal
from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs, NeedDecoded
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.types import Address, Hash, L1Block, L1BlockRef


class _Block:
    """A block that was not read ahead yet, with what was in force in it."""

    def __init__(self, block: L1Block, batcher: Address, rules: L1Rules, switches: bool) -> None:
        self.block, self.batcher, self.rules, self.switches = block, batcher, rules, switches
        blobs = wanted_blobs(data_items(block, batcher, rules))
        self.need = NeedBlobs(block.ref, blobs) if blobs else None
        self.contents: Sequence[BlobContent] = ()


class LookAhead:
    """Follows the same L1 blocks as the deriver, with channels of its own. `at` is the last block taken."""

    def __init__(self, config: RollupConfig) -> None:
        self._schedule = config.schedule()
        self._span = span_rules(config)
        self._trace = Trace()
        self._traversal: L1Traversal | None = None
        self._intake: Intake | None = None
        self._waiting: deque[_Block] = deque()

    @property
    def at(self) -> L1BlockRef | None:
        return None if self._traversal is None else self._traversal.origin

    def stop(self) -> None:
        """Forgets everything and takes no block before the next start."""
        self._traversal = self._intake = None
        self._waiting.clear()

    def start_behind(self, ref: L1BlockRef, config: SystemConfig) -> None:
        """Begins with the block after `ref`, `config` being in force there. Channels that are open then are missed."""
        self.stop()
        self._traversal = L1Traversal(self._schedule, self._trace, ref, config)
        self._intake = Intake(self._traversal.rules, self._trace)

    def start_at(self, base: L1Block, config: SystemConfig) -> None:
        """Begins with `base`, whose updates `config` already holds."""
        self.start_behind(base.ref, config)
        self._take_up(base, False)

    def add_block(self, block: L1Block) -> bool:
        """Takes the next block; False if it does not follow."""
        traversal = self._traversal
        if traversal is None or traversal.refusal(block) is not None:
            return False
        before = traversal.origin.timestamp
        traversal.advance(block)
        self._take_up(block, self._schedule.switches_stages(before, block.header.timestamp))
        return True

    def _take_up(self, block: L1Block, switches: bool) -> None:
        if self._traversal is not None:
            self._waiting.append(_Block(block, self._traversal.batcher, self._traversal.rules, switches))

    def needs(self) -> list[NeedBlobs]:
        """The blobs that are missing, the nearest block's first."""
        return [waiting.need for waiting in self._waiting if waiting.need is not None]

    def add_blobs(self, block_hash: Hash, contents: Sequence[BlobContent]) -> None:
        """Brings the blobs of a block."""
        for waiting in self._waiting:
            need = waiting.need
            if need is not None and need.block.hash == block_hash:
                if [content.hash for content in contents] == [blob.hash for blob in need.blobs]:
                    waiting.need, waiting.contents = None, contents
                return

    def complete_channels(self, after: int) -> Iterator[NeedDecoded]:
        """The channels that end in blocks whose blobs are there. Those of L1 blocks up to `after` are of no use."""
        while self._waiting and self._waiting[0].need is None:
            yield from self._read(self._waiting.popleft(), after)

    def _read(self, waiting: _Block, after: int) -> Iterator[NeedDecoded]:
        intake, block = self._intake, waiting.block
        if intake is None:
            return
        if waiting.switches:
            intake.switch(waiting.rules)
        intake.open(block, waiting.batcher, waiting.rules)
        intake.source.add_blobs(block.header.hash, waiting.contents)
        while isinstance(channel := intake.next_channel(block.ref, waiting.rules), ReadyChannel):
            if block.header.number > after:
                yield need_of(channel.body, waiting.rules, self._span)
        self._trace.dropped.clear()
