"""The channel assembler: one channel at a time, frames strictly in order (derivation-rules 8)."""

from rollup_node.stages.derivation.codec.frames import Frame
from rollup_node.stages.derivation.pipeline.channel_bank import ReadyChannel
from rollup_node.stages.derivation.pipeline.events import Trace
from rollup_node.stages.derivation.reasons.reasons import Effect, Reason, Why
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.types import L1BlockRef


class _Staging:
    """The channel being put together."""

    def __init__(self, channel: bytes, opened: int) -> None:
        self.channel = channel
        self.opened = opened
        self.size = 0
        self.closed = False
        self.parts: list[bytes] = []

    def refusal(self, frame: Frame) -> Reason | None:
        """Why the frame cannot be the next (CA5)."""
        if frame.channel != self.channel:
            return Why.STAGING_OTHER(number=frame.number, channel=frame.channel, held=self.channel)
        if frame.number != len(self.parts):
            return Why.STAGING_ORDER(number=frame.number, channel=frame.channel, expected=len(self.parts))
        return None

    def add(self, frame: Frame) -> None:
        self.parts.append(frame.data)
        self.size += frame.size
        self.closed = frame.is_last


class ChannelAssembler:
    """At most one channel; a first frame starts a new one in its place."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._staging: _Staging | None = None

    def __len__(self) -> int:
        return int(self._staging is not None)

    def read(self, origin: L1BlockRef, rules: L1Rules) -> ReadyChannel | None:
        """The channel once its closing frame is there (CA1, CA7)."""
        staging = self._staging
        if staging is None:
            return None
        if staging.closed:
            self._staging = None
            return ReadyChannel(staging.channel, b"".join(staging.parts))
        if staging.opened + rules.channel_timeout < origin.number:
            self._drop(
                Effect.TIMED_OUT,
                Why.STAGING_TIMEOUT(channel=staging.channel, opened=staging.opened, timeout=rules.channel_timeout),
            )
        return None

    def take_in(self, frame: Frame, origin: L1BlockRef, rules: L1Rules) -> None:
        """Adds one frame (CA3 to CA6)."""
        if frame.number == 0:
            self._start(frame, origin)
        staging = self._staging
        if staging is None:
            self._trace.note(Effect.IGNORED, Why.STAGING_NONE(number=frame.number, channel=frame.channel))
            return
        refusal = staging.refusal(frame)
        if refusal is not None:
            self._trace.note(Effect.IGNORED, refusal)
            return
        staging.add(frame)
        limit = rules.max_rlp_bytes_per_channel
        if staging.size > limit:
            self._drop(Effect.DROPPED, Why.STAGING_SIZE(channel=staging.channel, size=staging.size, limit=limit))

    def flush(self) -> None:
        """Forgets the unfinished channel (CA9)."""
        self._staging = None

    def _start(self, frame: Frame, origin: L1BlockRef) -> None:
        if self._staging is not None:
            reason = Why.STAGING_REPLACED(channel=self._staging.channel, next=frame.channel)
            self._drop(Effect.DROPPED, reason)
        self._staging = _Staging(frame.channel, origin.number)

    def _drop(self, effect: Effect, reason: Reason) -> None:
        self._staging = None
        self._trace.note(effect, reason)
