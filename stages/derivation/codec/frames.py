"""Frames: parsed from a data item, and pruned to those that can continue each other."""

from struct import Struct
from typing import NamedTuple

from rollup_node.stages.derivation.reasons.l1 import (
    FrameAfterLast,
    FrameEndMarkInvalid,
    FrameNotFirst,
    FrameOfUnclosedChannel,
    FrameOutOfOrder,
    FramesEmpty,
    FramesMissing,
    FramesVersionUnknown,
    FrameTooLong,
    FrameTruncated,
)
from rollup_node.stages.derivation.reasons.reason import Reason

VERSION = 0
MAX_DATA = 1_000_000
"""Bytes of a frame's data [CK2]."""
OVERHEAD = 200
"""Bytes that every frame counts towards size limits besides its data [CK1]."""

_CHANNEL, _NUMBER = 16, 2
_HEAD = Struct(">16sHI")
"""Channel id, frame number and length of the data."""
_LAST_NUMBER = 0xFFFF


class Frame(NamedTuple):
    """A piece of a channel [P4]; `channel` is an id of 16 bytes."""

    channel: bytes
    number: int
    data: bytes
    is_last: bool

    @property
    def size(self) -> int:
        """What the frame counts towards limits, in bytes."""
        return len(self.data) + OVERHEAD


def parse_frames(data: bytes) -> list[Frame] | Reason:
    """Return all frames of a data item, or why it is ignored: one malformed frame takes the others [P1 to P11]."""
    if not data:
        return FramesEmpty()
    if data[0] != VERSION:
        return FramesVersionUnknown(data[0])
    if len(data) == 1:
        return FramesMissing()
    frames: list[Frame] = []
    at, end, head_size, read_head = 1, len(data), _HEAD.size, _HEAD.unpack_from
    while at < end:
        start = at + head_size
        if start > end:
            return FrameTruncated(len(frames), at, _truncated_field(end - at))
        channel, number, length = read_head(data, at)
        stop = start + length
        if length > MAX_DATA:
            return FrameTooLong(len(frames), at, length)
        if stop >= end:
            return FrameTruncated(len(frames), at, "data" if stop > end else "end mark")
        end_mark = data[stop]
        if end_mark > 1:
            return FrameEndMarkInvalid(len(frames), at, end_mark)
        frames.append(Frame(channel, number, data[start:stop], end_mark == 1))
        at = stop + 1
    return frames


def _truncated_field(size: int) -> str:
    """Return the field of a frame's head in which `size` bytes end."""
    if size < _CHANNEL:
        return "channel id"
    return "number" if size < _CHANNEL + _NUMBER else "length"


def prune_frames(frames: list[Frame]) -> tuple[list[Frame], list[Reason]]:
    """Return the frames of an item that can continue their neighbours, and why the others are dropped [Q3]."""
    kept: list[Frame] = []
    reasons: list[Reason] = []
    for frame in frames:
        reason = None
        while kept and (reason := _rejection(kept[-1], frame)) is None and _is_abandoned(kept[-1], frame):
            # Goes on backwards: the earlier frames of the unclosed channel are dropped one by one.
            left = kept.pop()
            reasons.append(FrameOfUnclosedChannel(left.number, left.channel, frame.channel))
        if reason is None:
            kept.append(frame)
        else:
            reasons.append(reason)
    return kept, reasons


def _rejection(previous: Frame, frame: Frame) -> Reason | None:
    """Why `frame` does not continue `previous` [Q3a, Q3b, Q3d]."""
    number, channel = frame.number, frame.channel
    if channel != previous.channel:
        return FrameNotFirst(number, channel, previous.channel) if number else None
    if previous.is_last:
        return FrameAfterLast(number, channel, previous.number)
    follows = number == (previous.number + 1) & _LAST_NUMBER
    return None if follows else FrameOutOfOrder(number, channel, previous.number)


def _is_abandoned(previous: Frame, frame: Frame) -> bool:
    """Whether another channel starts while that of `previous` is not closed [Q3c]."""
    return frame.channel != previous.channel and not previous.is_last
