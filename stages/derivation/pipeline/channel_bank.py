"""The channel stages: the channel bank before Holocene, and the channel assembler."""

from collections import OrderedDict
from typing import NamedTuple

from rollup_node.stages.derivation.codec.frames import Frame
from rollup_node.stages.derivation.pipeline.outputs import PipelineEvents
from rollup_node.stages.derivation.reasons import channels as reasons
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.types import L1BlockRef


class ReadyChannel(NamedTuple):
    """A complete channel; `body` is the data of its frames in order."""

    id: bytes
    body: bytes


class PartialChannel(NamedTuple):
    """A channel that was opened at L1 block `opened`, with the data of its frames by number."""

    id: bytes
    opened: int
    frames: dict[int, bytes]


class ChannelFrames:
    """The frames of one channel that was opened at L1 block `opened`.

    `size` is what counts towards the bank's limit, in bytes; `end` is the number of the closing frame once that is
    there."""

    def __init__(self, opened: int) -> None:
        self.opened = opened
        self.size = 0
        self.end: int | None = None
        self._highest = 0
        self._frames: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._frames)

    def rejection(self, frame: Frame) -> Reason | None:
        """Why the frame cannot be added: it closes a closed channel, is a duplicate, or lies beyond the end [CB9]."""
        number, channel = frame.number, frame.channel
        if frame.is_last and self.end is not None:
            return reasons.FrameClosesClosedChannel(number, channel, self.end)
        if number in self._frames:
            return reasons.FrameDuplicate(number, channel)
        if self.end is not None and number >= self.end:
            return reasons.FrameBeyondEnd(number, channel, self.end)
        return None

    def add(self, frame: Frame) -> list[int]:
        """Add a frame; the numbers of the frames that it supersedes, if it closes the channel [CB10, CB11]."""
        superseded: list[int] = []
        if frame.is_last:
            self.end = frame.number
            if self._highest > frame.number:
                superseded = [number for number in self._frames if number >= frame.number]
                for number in superseded:
                    del self._frames[number]
                self._highest = frame.number
                # op-node subtracts the frames that are kept as well; what the bank evicts depends on it.
                self.size = 0
        self._highest = max(self._highest, frame.number)
        self._frames[frame.number] = frame.data
        self.size += frame.size
        return superseded

    @property
    def frames(self) -> dict[int, bytes]:
        """The data of the frames by number, in order."""
        return dict(sorted(self._frames.items()))

    def is_ready(self) -> bool:
        """Whether all frames up to the closing one are there [CB5]."""
        return self.end is not None and len(self._frames) == self.end + 1

    def is_timed_out(self, origin: L1BlockRef, rules: L1Rules) -> bool:
        """Whether `origin` is more than the timeout after the block at which the channel was opened [CA1, CB2]."""
        return self.opened + rules.channel_timeout < origin.number

    def contiguous(self) -> tuple[int, bytes]:
        """Return the number of frames that follow each other from frame 0 on, and their data."""
        count = 0
        while count in self._frames:
            count += 1
        return count, b"".join(self._frames[number] for number in range(count))


class ChannelBank:
    """Channels from oldest to newest. A step reads a channel and, only if none can be read, ingests one frame."""

    def __init__(self, events: PipelineEvents) -> None:
        self._events = events
        self._channels: OrderedDict[bytes, ChannelFrames] = OrderedDict()
        self._ready: set[bytes] = set()
        self._size = 0

    def __len__(self) -> int:
        return len(self._channels)

    @property
    def open_channels(self) -> tuple[PartialChannel, ...]:
        """The channels that have not been read, oldest first."""
        return tuple(PartialChannel(key, item.opened, item.frames) for key, item in self._channels.items())

    def read(self, origin: L1BlockRef, rules: L1Rules) -> ReadyChannel | None:
        """Return the next complete channel, which leaves the bank: before Canyon only the oldest one, then any.

        Channels that timed out are dropped once they are the oldest [CB1 to CB6]."""
        while self._channels:
            oldest = next(iter(self._channels))
            channel = self._channels[oldest]
            if not channel.is_timed_out(origin, rules):
                break
            self._remove(oldest)
            reason = reasons.ChannelTimedOut(oldest, channel.opened, rules.channel_timeout)
            self._events.drop(DropEffect.TIMED_OUT, reason)
        key = self._first_ready(rules)
        if key is None:
            return None
        body = self._channels[key].contiguous()[1]
        self._remove(key)
        return ReadyChannel(key, body)

    def ingest_frame(self, frame: Frame, origin: L1BlockRef, rules: L1Rules) -> None:
        """Add a frame, then evicts the oldest channels while the bank is too large [CB7 to CB12]."""
        # Even a frame that is ignored opens its channel.
        channel = self._channels.get(frame.channel)
        if channel is None:
            channel = self._channels[frame.channel] = ChannelFrames(origin.number)
        if channel.is_timed_out(origin, rules):
            self._events.drop(DropEffect.IGNORED, reasons.FrameTooLate(frame.number, frame.channel, channel.opened))
            return
        rejection = channel.rejection(frame)
        if rejection is not None:
            self._events.drop(DropEffect.IGNORED, rejection)
            return
        self._size -= channel.size
        for number in channel.add(frame):
            self._events.drop(DropEffect.DROPPED, reasons.FrameSuperseded(number, frame.channel, frame.number))
        self._size += channel.size
        self._events.frames_added += 1
        if channel.is_ready():
            self._ready.add(frame.channel)
        self._prune(rules.max_channel_bank_size)

    def flush(self) -> None:
        """Nothing: before Holocene an invalid batch takes no channel with it."""

    def _first_ready(self, rules: L1Rules) -> bytes | None:
        """Return the oldest complete channel, before Canyon the oldest if complete; none has timed out yet."""
        if not self._ready:
            return None
        if rules.read_any_ready_channel and len(self._ready) == 1:
            return next(iter(self._ready))
        oldest = next(iter(self._channels))
        if not rules.read_any_ready_channel:
            return oldest if oldest in self._ready else None
        return next(key for key in self._channels if key in self._ready)

    def _prune(self, limit: int) -> None:
        while self._size > limit:
            oldest = next(iter(self._channels))
            reason = reasons.ChannelEvicted(oldest, self._size, limit)
            self._remove(oldest)
            self._events.drop(DropEffect.DROPPED, reason)

    def _remove(self, key: bytes) -> None:
        self._size -= self._channels.pop(key).size
        self._ready.discard(key)


class ChannelAssembler:
    """Holds at most one channel, the staging channel; a first frame starts a new one in its place."""

    def __init__(self, events: PipelineEvents) -> None:
        self._events = events
        self._id = b""
        self._staging: ChannelFrames | None = None

    def __len__(self) -> int:
        return int(self._staging is not None)

    @property
    def open_channels(self) -> tuple[PartialChannel, ...]:
        """The staging channel, if there is one."""
        staging = self._staging
        return () if staging is None else (PartialChannel(self._id, staging.opened, staging.frames),)

    def read(self, origin: L1BlockRef, rules: L1Rules) -> ReadyChannel | None:
        """Return the channel once its closing frame is there [CA7]; one that timed out is dropped [CA1]."""
        staging = self._staging
        if staging is None:
            return None
        if staging.is_ready():
            self._staging = None
            return ReadyChannel(self._id, staging.contiguous()[1])
        if staging.is_timed_out(origin, rules):
            reason = reasons.StagingChannelTimedOut(self._id, staging.opened, rules.channel_timeout)
            self._drop(DropEffect.TIMED_OUT, reason)
        return None

    def ingest_frame(self, frame: Frame, origin: L1BlockRef, rules: L1Rules) -> None:
        """Add the next frame of the channel or ignores it. A channel that becomes too large is dropped [CA3 to CA6]."""
        if frame.number == 0:
            self._start(frame, origin)
        staging = self._staging
        if staging is None:
            self._events.drop(DropEffect.IGNORED, reasons.FrameWithoutChannel(frame.number, frame.channel))
            return
        rejection = self._rejection(frame, len(staging))
        if rejection is not None:
            self._events.drop(DropEffect.IGNORED, rejection)
            return
        staging.add(frame)
        self._events.frames_added += 1
        limit = rules.max_rlp_bytes_per_channel
        if staging.size > limit:
            self._drop(DropEffect.DROPPED, reasons.StagingChannelTooLarge(self._id, staging.size, limit))

    def flush(self) -> None:
        """Drop the staging channel [CA9]."""
        self._staging = None

    def _start(self, frame: Frame, origin: L1BlockRef) -> None:
        if self._staging is not None:
            self._drop(DropEffect.DROPPED, reasons.StagingChannelReplaced(self._id, frame.channel))
        self._id, self._staging = frame.channel, ChannelFrames(origin.number)

    def _rejection(self, frame: Frame, expected: int) -> Reason | None:
        """Why the frame is not the next of this channel [CA5]."""
        if frame.channel != self._id:
            return reasons.FrameOfOtherChannel(frame.number, frame.channel, self._id)
        return reasons.FrameNotNext(frame.number, frame.channel, expected) if frame.number != expected else None

    def _drop(self, effect: DropEffect, reason: Reason) -> None:
        self._staging = None
        self._events.drop(effect, reason)
