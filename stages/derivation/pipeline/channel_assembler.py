"""The channel assembler, from Holocene on: one channel at a time, its frames strictly in order."""

from rollup_node.stages.derivation.codec.frames import Frame
from rollup_node.stages.derivation.pipeline.channel_bank import PartialChannel, ReadyChannel
from rollup_node.stages.derivation.pipeline.events import PipelineEvents
from rollup_node.stages.derivation.reasons.channels import (
    FrameNotNext,
    FrameOfOtherChannel,
    FrameWithoutChannel,
    StagingChannelReplaced,
    StagingChannelTimedOut,
    StagingChannelTooLarge,
)
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.types import L1BlockRef


class _StagingChannel:
    """The channel that is being assembled."""

    def __init__(self, channel: bytes, opened: int) -> None:
        self.channel = channel
        self.opened = opened
        self.size = 0
        self.closed = False
        self.parts: list[bytes] = []

    def rejection(self, frame: Frame) -> Reason | None:
        """Why the frame is not the next of this channel [CA5]."""
        if frame.channel != self.channel:
            return FrameOfOtherChannel(frame.number, frame.channel, staging=self.channel)
        if frame.number != len(self.parts):
            return FrameNotNext(frame.number, frame.channel, expected=len(self.parts))
        return None

    def add(self, frame: Frame) -> None:
        self.parts.append(frame.data)
        self.size += frame.size
        self.closed = frame.is_last


class ChannelAssembler:
    """Holds at most one channel, the staging channel; a first frame starts a new one in its place."""

    def __init__(self, events: PipelineEvents) -> None:
        self._events = events
        self._staging: _StagingChannel | None = None

    def __len__(self) -> int:
        return int(self._staging is not None)

    @property
    def open_channels(self) -> tuple[PartialChannel, ...]:
        """The staging channel, if there is one."""
        staging = self._staging
        if staging is None:
            return ()
        return (PartialChannel(staging.channel, staging.opened, dict(enumerate(staging.parts))),)

    def read(self, origin: L1BlockRef, rules: L1Rules) -> ReadyChannel | None:
        """Return the channel once its closing frame is there [CA7]; one that timed out is dropped [CA1]."""
        staging = self._staging
        if staging is None:
            return None
        if staging.closed:
            self._staging = None
            return ReadyChannel(staging.channel, b"".join(staging.parts))
        if staging.opened + rules.channel_timeout < origin.number:
            reason = StagingChannelTimedOut(staging.channel, staging.opened, rules.channel_timeout)
            self._drop(DropEffect.TIMED_OUT, reason)
        return None

    def ingest_frame(self, frame: Frame, origin: L1BlockRef, rules: L1Rules) -> None:
        """Add the next frame of the channel or ignores it.

        A channel that becomes too large is dropped [CA3 to CA6]."""
        if frame.number == 0:
            self._start(frame, origin)
        staging = self._staging
        if staging is None:
            self._events.drop(DropEffect.IGNORED, FrameWithoutChannel(frame.number, frame.channel))
            return
        rejection = staging.rejection(frame)
        if rejection is not None:
            self._events.drop(DropEffect.IGNORED, rejection)
            return
        staging.add(frame)
        self._events.add_frame()
        limit = rules.max_rlp_bytes_per_channel
        if staging.size > limit:
            self._drop(DropEffect.DROPPED, StagingChannelTooLarge(staging.channel, staging.size, limit))

    def flush(self) -> None:
        """Drop the staging channel [CA9]."""
        self._staging = None

    def _start(self, frame: Frame, origin: L1BlockRef) -> None:
        if self._staging is not None:
            reason = StagingChannelReplaced(self._staging.channel, next=frame.channel)
            self._drop(DropEffect.DROPPED, reason)
        self._staging = _StagingChannel(frame.channel, origin.number)

    def _drop(self, effect: DropEffect, reason: Reason) -> None:
        self._staging = None
        self._events.drop(effect, reason)
