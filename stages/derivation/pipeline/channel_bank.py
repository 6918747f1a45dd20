"""The channel bank: many channels at once, frames in any order (derivation-rules 7)."""

from collections import OrderedDict
from typing import NamedTuple

from rollup_node.stages.derivation.codec.frames import Frame
from rollup_node.stages.derivation.pipeline.events import Trace
from rollup_node.stages.derivation.reasons.reasons import Effect, Reason, Value, Why
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.types import L1BlockRef


class ReadyChannel(NamedTuple):
    """A channel all of whose frames are there."""

    id: bytes
    body: bytes


class ChannelFrames:
    """The frames of one channel. `size` is what counts towards the bank's limit: a closing frame that makes others
    superfluous takes away the size of all before it, those kept included (CB10)."""

    def __init__(self, opened: int) -> None:
        self.opened = opened
        self.size = 0
        self.end: int | None = None
        self._highest = 0
        self._frames: dict[int, bytes] = {}

    def refusal(self, frame: Frame) -> Reason | None:
        """Why the frame cannot be added (CB9)."""
        values: dict[str, Value] = {"number": frame.number, "channel": frame.channel}
        if frame.is_last and self.end is not None:
            return Why.BANK_SECOND_END(end=self.end, **values)
        if frame.number in self._frames:
            return Why.BANK_DUPLICATE(**values)
        if self.end is not None and frame.number >= self.end:
            return Why.BANK_BEYOND(end=self.end, **values)
        return None

    def add(self, frame: Frame) -> list[int]:
        """Adds a frame; the numbers of frames that a closing one makes superfluous."""
        superfluous: list[int] = []
        if frame.is_last:
            self.end = frame.number
            if self._highest > frame.number:
                superfluous = [number for number in self._frames if number >= frame.number]
                for number in superfluous:
                    del self._frames[number]
                self._highest = frame.number
                self.size = 0
        self._highest = max(self._highest, frame.number)
        self._frames[frame.number] = frame.data
        self.size += frame.size
        return superfluous

    def is_ready(self) -> bool:
        return self.end is not None and len(self._frames) == self.end + 1

    def beginning(self) -> tuple[int, bytes]:
        """How many frames stand in a row from the first on, and their data."""
        count = 0
        while count in self._frames:
            count += 1
        return count, b"".join(self._frames[number] for number in range(count))


class ChannelBank:
    """Channels from oldest to newest. A step is: read; only if nothing is readable, take in one frame."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._channels: OrderedDict[bytes, ChannelFrames] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._channels)

    def read(self, origin: L1BlockRef, rules: L1Rules) -> ReadyChannel | None:
        """The next complete channel, taken out of the bank (7.1)."""
        while self._channels:
            oldest = next(iter(self._channels))
            channel = self._channels[oldest]
            if not self._is_late(channel, origin, rules):
                break
            reason = Why.BANK_TIMEOUT(channel=oldest, opened=channel.opened, timeout=rules.channel_timeout)
            self._remove(oldest)
            self._trace.note(Effect.TIMED_OUT, reason)
        for key, channel in self._channels.items():
            if channel.is_ready() and not self._is_late(channel, origin, rules):
                self._remove(key)
                return ReadyChannel(key, channel.beginning()[1])
            if not rules.read_any_ready_channel:
                return None
        return None

    def take_in(self, frame: Frame, origin: L1BlockRef, rules: L1Rules) -> None:
        """Adds one frame, and drops the oldest channels while the bank is too large (7.2)."""
        channel = self._channels.setdefault(frame.channel, ChannelFrames(origin.number))
        if self._is_late(channel, origin, rules):
            reason = Why.BANK_LATE(number=frame.number, channel=frame.channel, opened=channel.opened)
            self._trace.note(Effect.IGNORED, reason)
            return
        refusal = channel.refusal(frame)
        if refusal is not None:
            self._trace.note(Effect.IGNORED, refusal)
            return
        self._size -= channel.size
        for number in channel.add(frame):
            reason = Why.BANK_SUPERSEDED(number=number, channel=frame.channel, end=frame.number)
            self._trace.note(Effect.DROPPED, reason)
        self._size += channel.size
        self._prune(rules.max_channel_bank_size)

    def _prune(self, limit: int) -> None:
        while self._size > limit:
            oldest = next(iter(self._channels))
            reason = Why.BANK_FULL(channel=oldest, size=self._size, limit=limit)
            self._remove(oldest)
            self._trace.note(Effect.DROPPED, reason)

    def _remove(self, key: bytes) -> None:
        self._size -= self._channels.pop(key).size

    def _is_late(self, channel: ChannelFrames, origin: L1BlockRef, rules: L1Rules) -> bool:
        return channel.opened + rules.channel_timeout < origin.number

    def flush(self) -> None:
        """Nothing: a bank keeps its channels whatever becomes of a batch."""
