"""Frame ingestion: from L1 blocks to complete channels, through the frame queue and the channel stage."""

from collections import deque

from rollup_node.stages.derivation.codec.frames import Frame
from rollup_node.stages.derivation.pipeline.alt_da import AltDaResolver
from rollup_node.stages.derivation.pipeline.block_frames import BlockFrames, ItemFrames, parse_item
from rollup_node.stages.derivation.pipeline.channel_assembler import ChannelAssembler
from rollup_node.stages.derivation.pipeline.channel_bank import ChannelBank, PartialChannel, ReadyChannel
from rollup_node.stages.derivation.pipeline.data_source import DataSource
from rollup_node.stages.derivation.pipeline.events import PipelineEvents
from rollup_node.stages.derivation.pipeline.outputs import NeedData
from rollup_node.stages.protocol.forks.rules import ChannelStageKind, L1Rules
from rollup_node.stages.protocol.types import Address, L1Block, L1BlockRef

CHANNEL_STAGES: dict[ChannelStageKind, type[ChannelBank] | type[ChannelAssembler]] = {
    ChannelStageKind.CHANNEL_BANK: ChannelBank,
    ChannelStageKind.CHANNEL_ASSEMBLER: ChannelAssembler,
}


class FrameIngestion:
    """The stages before the channel reader.

    The channel stage is chosen at construction and by `replace_channels`; everything else follows the rules of the
    block being read [PS3 to PS6]. `alt_da` resolves the data items that are commitments, on chains with Alt-DA."""

    def __init__(self, rules: L1Rules, events: PipelineEvents, alt_da: AltDaResolver | None = None) -> None:
        self.source = DataSource(events, alt_da is not None)
        self._events, self._alt_da = events, alt_da
        self._frames: deque[Frame] = deque()
        self._channels: ChannelBank | ChannelAssembler = CHANNEL_STAGES[rules.channel_stage](events)

    def open(self, block: L1Block, batcher: Address, rules: L1Rules, frames: BlockFrames | None = None) -> None:
        """Start on an L1 block; the one before must be exhausted. `frames` are those parsed ahead, if any."""
        self.source.open(block, batcher, rules, frames)

    def replace_channels(self, rules: L1Rules) -> tuple[int, int]:
        """Replace the channel stage by an empty one of these rules.

        The number of frames and of channels that are discarded [PS3]."""
        discarded = len(self._frames), len(self._channels)
        self._frames.clear()
        self._channels = CHANNEL_STAGES[rules.channel_stage](self._events)
        return discarded

    @property
    def open_channels(self) -> tuple[PartialChannel, ...]:
        """The channels of the channel stage, oldest first."""
        return self._channels.open_channels

    def flush(self) -> None:
        """Drop the staging channel; frames in the frame queue stay [BS7]."""
        self._channels.flush()

    def next_channel(self, origin: L1BlockRef, rules: L1Rules) -> ReadyChannel | NeedData | None:
        """Return the next complete channel; None when the block is exhausted.

        A channel is read before the next frame is ingested, which decides what the bank evicts [CB17]."""
        alt_da = self._alt_da
        while True:
            channel = self._channels.read(origin, rules)
            if channel is not None:
                return channel
            if self._frames:
                self._channels.ingest_frame(self._frames.popleft(), origin, rules)
                continue
            item = self.source.pop() if alt_da is None else self._resolved_item(alt_da, origin, rules)
            if not isinstance(item, ItemFrames):
                return item
            for effect, reason in item.drops:
                self._events.drop(effect, reason)
            self._frames.extend(item.frames)

    def _resolved_item(self, alt_da: AltDaResolver, origin: L1BlockRef, rules: L1Rules) -> ItemFrames | NeedData | None:
        """Return the next item, a commitment replaced by its input [AD8]."""
        while True:
            found = alt_da.next()
            if isinstance(found, bytes):
                return parse_item(found, rules)
            if found is not None:
                return found
            item = self.source.pop()
            if not isinstance(item, ItemFrames) or item.unresolved is None:
                return item
            alt_da.resolve(item.unresolved, origin)
