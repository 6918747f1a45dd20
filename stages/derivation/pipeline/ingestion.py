"""From L1 blocks to complete channels: data items, frames and channels of the block being read."""

from collections import deque

from rollup_node.stages.derivation.codec.frames import Frame, parse_frames, prune_frames
from rollup_node.stages.derivation.pipeline.channel_assembler import ChannelAssembler
from rollup_node.stages.derivation.pipeline.channel_bank import ChannelBank, ReadyChannel
from rollup_node.stages.derivation.pipeline.data_source import DataSource
from rollup_node.stages.derivation.pipeline.events import Trace
from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs
from rollup_node.stages.derivation.reasons.reasons import Effect, Reason
from rollup_node.stages.protocol.forks.rules import ChannelStageKind, L1Rules
from rollup_node.stages.protocol.types import Address, L1Block, L1BlockRef

CHANNEL_STAGES: dict[ChannelStageKind, type[ChannelBank] | type[ChannelAssembler]] = {
    ChannelStageKind.CHANNEL_BANK: ChannelBank,
    ChannelStageKind.CHANNEL_ASSEMBLER: ChannelAssembler,
}


class Intake:
    """The stages before the channel reader. Which channel stage it has is decided when it is made, and by `switch`;
    everything else follows the rules of the block being read (derivation-rules PS3 to PS5)."""

    def __init__(self, rules: L1Rules, trace: Trace) -> None:
        self.source = DataSource(trace)
        self._trace = trace
        self._frames: deque[Frame] = deque()
        self._channels: ChannelBank | ChannelAssembler = CHANNEL_STAGES[rules.channel_stage](trace)

    def open(self, block: L1Block, batcher: Address, rules: L1Rules) -> None:
        """Starts to read a block; the one before must be used up."""
        self.source.open(block, batcher, rules)

    def switch(self, rules: L1Rules) -> tuple[int, int]:
        """Puts an empty channel stage by these rules in place of the present one; how many frames and channels were
        lost with it."""
        lost = len(self._frames), len(self._channels)
        self._frames.clear()
        self._channels = CHANNEL_STAGES[rules.channel_stage](self._trace)
        return lost

    def flush(self) -> None:
        """Forgets the channel being put together; frames already cut out stay (derivation-rules BS7)."""
        self._channels.flush()

    def next_channel(self, origin: L1BlockRef, rules: L1Rules) -> ReadyChannel | NeedBlobs | None:
        """The next complete channel; None when the block is used up."""
        while True:
            channel = self._channels.read(origin, rules)
            if channel is not None:
                return channel
            if not self._frames:
                item = self.source.pop()
                if not isinstance(item, bytes):
                    return item
                self._parse(item, rules)
            else:
                self._channels.take_in(self._frames.popleft(), origin, rules)

    def _parse(self, item: bytes, rules: L1Rules) -> None:
        frames = parse_frames(item)
        if isinstance(frames, Reason):
            self._trace.note(Effect.IGNORED, frames)
            return
        if rules.contiguous_frames:
            frames, pruned = prune_frames(frames)
            for reason in pruned:
                self._trace.note(Effect.DROPPED, reason)
        self._frames.extend(frames)
