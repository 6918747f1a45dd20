"""Reads ahead of derivation: which blobs the buffered L1 blocks need, and which channels will be complete.

It is only a prefetch: derivation requests what it needs whether or not it was prefetched. Each block is parsed once:
the pipeline takes over the frames that were parsed here."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rollup_node.stages.derivation.pipeline import block_frames
from rollup_node.stages.derivation.pipeline.channel_bank import ReadyChannel
from rollup_node.stages.derivation.pipeline.channel_reader import need_decoded, span_rules
from rollup_node.stages.derivation.pipeline.ingestion import FrameIngestion
from rollup_node.stages.derivation.pipeline.l1_origins import L1Traversal
from rollup_node.stages.derivation.pipeline.outputs import DiscardedEvents, NeedBlobs, NeedDecoded
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.types import Address, BlobRef, Hash, L1Block, L1BlockRef

MAX_PARSED = 48 << 20
"""Bytes of memory of the frames that are parsed ahead."""
_FRAME_OVERHEAD, _DROP_OVERHEAD = 250, 300
"""Bytes of the objects of a frame and of a drop, about."""


class _PendingBlock:
    """A block not ingested yet: its items until its blobs are there, then its frames."""

    def __init__(self, ref: L1BlockRef, batcher: Address, rules: L1Rules, replaces_stages: bool) -> None:
        self.ref, self.batcher, self.rules, self.replaces_stages = ref, batcher, rules, replaces_stages
        self.items: list[bytes | BlobRef] = []
        self.need: NeedBlobs | None = None
        self.frames: block_frames.BlockFrames | None = None


class _Parsed(NamedTuple):
    """The frames of a block until the pipeline takes them; `size` is what they take, in bytes."""

    number: int
    frames: block_frames.BlockFrames
    size: int


class Prefetcher:
    """Follows the same L1 blocks as the deriver, with a channel stage of its own.

    `at` is the last block added, `parsed_bytes` what the frames that wait for the pipeline take."""

    def __init__(self, config: RollupConfig) -> None:
        self.parsed_bytes = 0
        self._schedule = config.schedule()
        self._span = span_rules(config)
        self._events = DiscardedEvents()
        self._traversal: L1Traversal | None = None
        self._ingestion: FrameIngestion | None = None
        self._pending: deque[_PendingBlock] = deque()
        self._parsed: dict[Hash, _Parsed] = {}

    @property
    def at(self) -> L1BlockRef | None:
        return None if self._traversal is None else self._traversal.origin

    def clear(self) -> None:
        """Discard everything, the parsed frames included."""
        self.stop()
        self._parsed.clear()
        self.parsed_bytes = 0

    def stop(self) -> None:
        """Discard the open channels, and accept no block before the next start."""
        self._traversal = self._ingestion = None
        self._pending.clear()

    def start_after(self, ref: L1BlockRef, config: SystemConfig) -> None:
        """Start with the block after `ref`; `config` is in force at `ref`. Channels that are open there are missed."""
        self.stop()
        self._traversal = L1Traversal(self._schedule, self._events, ref, config)
        self._ingestion = FrameIngestion(self._traversal.rules, self._events)

    def start_at(self, base: L1Block, config: SystemConfig) -> None:
        """Start with `base`, whose updates `config` already contains."""
        self.start_after(base.ref, config)
        self._append(base, False)

    def add_block(self, block: L1Block) -> bool:
        """Add the next block; False if it does not follow the last one, or nothing was started."""
        traversal = self._traversal
        if traversal is None or traversal.rejection(block) is not None:
            return False
        before = traversal.origin.timestamp
        traversal.advance(block)
        self._append(block, self._schedule.switches_stages(before, block.header.timestamp))
        return True

    def needs(self) -> list[NeedBlobs]:
        """Return the blobs that are missing, those of the nearest block first."""
        return [pending.need for pending in self._pending if pending.need is not None]

    def add_blobs(self, block_hash: Hash, contents: Sequence[BlobContent]) -> bool:
        """Bring the blobs of a block; False if they are not needed here, or frames of others fill the memory."""
        waiting = [pending for pending in self._pending if pending.need is not None]
        for pending in waiting:
            if pending.ref.hash == block_hash and pending.need is not None:
                is_full = self.parsed_bytes > MAX_PARSED and pending is not waiting[0]
                if is_full or not block_frames.are_contents_of(contents, pending.need.blobs):
                    return False
                self._parse(pending, contents)
                return True
        return False

    def has_frames(self, block_hash: Hash) -> bool:
        return block_hash in self._parsed

    def take_frames(self, block: L1BlockRef) -> block_frames.BlockFrames | None:
        """Return the parsed frames of the block that the pipeline reads now; earlier ones are discarded."""
        _parsed = self._parsed.get(block.hash)
        for key in [key for key, parsed in self._parsed.items() if parsed.number <= block.number]:
            self.parsed_bytes -= self._parsed.pop(key).size
        return None if _parsed is None else _parsed.frames

    def complete_channels(self, after: int) -> Iterator[NeedDecoded]:
        """Yield the decoding tasks of channels that are complete in blocks whose blobs are there.

        Those of L1 blocks up to number `after` are left out: derivation discards them unread."""
        while self._pending and (frames := self._pending[0].frames) is not None:
            yield from self._ingest(self._pending.popleft(), frames, after)

    def _append(self, block: L1Block, replaces_stages: bool) -> None:
        assert self._traversal is not None
        pending = _PendingBlock(block.ref, self._traversal.batcher, self._traversal.rules, replaces_stages)
        self._pending.append(pending)
        parsed = self._parsed.get(block.header.hash)
        if parsed is not None and parsed.frames.batcher == pending.batcher:
            pending.frames = parsed.frames
            return
        pending.items = block_frames.data_items(block, pending.batcher, pending.rules)
        blobs = block_frames.blob_refs(pending.items)
        if blobs:
            pending.need = NeedBlobs(block.ref, blobs)
        else:
            self._parse(pending, ())

    def _parse(self, pending: _PendingBlock, contents: Sequence[BlobContent]) -> None:
        ref = pending.ref
        pending.frames = block_frames.parse_block(ref.hash, pending.batcher, pending.items, contents, pending.rules)
        pending.need, pending.items = None, []
        replaced = self._parsed.get(ref.hash)
        parsed = _Parsed(ref.number, pending.frames, _memory(pending.frames))
        self._parsed[ref.hash] = parsed
        self.parsed_bytes += parsed.size - (0 if replaced is None else replaced.size)

    def _ingest(self, pending: _PendingBlock, frames: block_frames.BlockFrames, after: int) -> Iterator[NeedDecoded]:
        ingestion = self._ingestion
        if ingestion is None:
            return
        if pending.replaces_stages:
            ingestion.replace_channels(pending.rules)
        ingestion.source.open_parsed(frames)
        while isinstance(channel := ingestion.next_channel(pending.ref, pending.rules), ReadyChannel):
            if pending.ref.number > after:
                yield need_decoded(channel.body, pending.rules, self._span)


def _memory(frames: block_frames.BlockFrames) -> int:
    """Bytes of memory, about."""
    return sum(
        sum(_FRAME_OVERHEAD + len(frame.data) for frame in item.frames) + _DROP_OVERHEAD * len(item.drops)
        for item in frames.items
    )
