"""Frames: cut out of a transaction's data or a blob's, and pruned to contiguous runs (derivation-rules 6)."""

from typing import NamedTuple

from rollup_node.stages.derivation.reasons.reasons import Reason, Value, Why

VERSION = 0
MAX_DATA = 1_000_000
OVERHEAD = 200
"""What a frame counts beyond its data wherever sizes are limited."""

_CHANNEL, _NUMBER, _LENGTH = 16, 2, 4
_HEAD = _CHANNEL + _NUMBER + _LENGTH
_LAST_NUMBER = 0xFFFF


class Frame(NamedTuple):
    """A piece of a channel; the channel id is 16 bytes."""

    channel: bytes
    number: int
    data: bytes
    is_last: bool

    @property
    def size(self) -> int:
        """What it counts towards limits."""
        return len(self.data) + OVERHEAD


def parse_frames(data: bytes) -> list[Frame] | Reason:
    """All frames of one data item; one that is malformed refuses them all (6.1)."""
    if not data:
        return Why.FRAMES_EMPTY()
    if data[0] != VERSION:
        return Why.FRAMES_VERSION(version=data[0])
    if len(data) == 1:
        return Why.FRAMES_NONE()
    frames: list[Frame] = []
    at, end = 1, len(data)
    while at < end:
        start = at + _HEAD
        if start > end:
            return Why.FRAME_CUT(frame=len(frames), offset=at, field=_field_cut_at(end - at))
        length = int.from_bytes(data[start - _LENGTH : start], "big")
        stop = start + length
        if length > MAX_DATA:
            return Why.FRAME_LENGTH(frame=len(frames), offset=at, length=length)
        if stop >= end:
            return Why.FRAME_CUT(frame=len(frames), offset=at, field="data" if stop > end else "end mark")
        if data[stop] > 1:
            return Why.FRAME_LAST(frame=len(frames), offset=at, mark=data[stop])
        number = int.from_bytes(data[at + _CHANNEL : at + _CHANNEL + _NUMBER], "big")
        frames.append(Frame(data[at : at + _CHANNEL], number, data[start:stop], data[stop] == 1))
        at = stop + 1
    return frames


def _field_cut_at(size: int) -> str:
    if size < _CHANNEL:
        return "channel id"
    return "number" if size < _CHANNEL + _NUMBER else "length"


def prune_frames(frames: list[Frame]) -> tuple[list[Frame], list[Reason]]:
    """The frames that can be part of a channel whose frames follow each other, and why the others cannot (Q3)."""
    kept: list[Frame] = []
    reasons: list[Reason] = []
    for frame in frames:
        reason = None
        while kept and (reason := _refusal(kept[-1], frame)) is None and _is_abandoned(kept[-1], frame):
            left = kept.pop()
            reasons.append(Why.PRUNED_UNCLOSED(number=left.number, channel=left.channel, next=frame.channel))
        if reason is None:
            kept.append(frame)
        else:
            reasons.append(reason)
    return kept, reasons


def _refusal(previous: Frame, frame: Frame) -> Reason | None:
    """Why `frame` cannot stand behind `previous`."""
    values: dict[str, Value] = {"number": frame.number, "channel": frame.channel}
    if frame.channel != previous.channel:
        return Why.PRUNED_NOT_FIRST(previous=previous.channel, **values) if frame.number else None
    if previous.is_last:
        return Why.PRUNED_AFTER_LAST(previous=previous.number, **values)
    follows = frame.number == (previous.number + 1) & _LAST_NUMBER
    return None if follows else Why.PRUNED_ORDER(previous=previous.number, **values)


def _is_abandoned(previous: Frame, frame: Frame) -> bool:
    """Whether another channel starts while the previous one is open."""
    return frame.channel != previous.channel and not previous.is_last
