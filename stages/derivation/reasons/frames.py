"""Reasons of frame parsing and the frame queue."""

from rollup_node.stages.derivation.reasons.reason import Reason, reason


@reason("P1", "frames", "no bytes")
class FramesEmpty(Reason, frozen=True): ...


@reason("P2", "frames", "unknown version {version}")
class FramesVersionUnknown(Reason, frozen=True):
    version: int


@reason("P3", "frames", "no frame after the version byte")
class FramesMissing(Reason, frozen=True): ...


@reason("P5", "frames", "frame {frame} at offset {offset} is cut off in its {field}")
class FrameTruncated(Reason, frozen=True):
    frame: int
    offset: int
    field: str


@reason("P6", "frames", "frame {frame} at offset {offset} claims {length} bytes")
class FrameTooLong(Reason, frozen=True):
    frame: int
    offset: int
    length: int


@reason("P8", "frames", "frame {frame} at offset {offset} has end mark {mark}")
class FrameEndMarkInvalid(Reason, frozen=True):
    frame: int
    offset: int
    mark: int


@reason("Q3a", "frame", "frame {number} of channel {channel} follows the closing frame {previous}")
class FrameAfterLast(Reason, frozen=True):
    number: int
    channel: bytes
    previous: int


@reason("Q3b", "frame", "frame {number} of channel {channel} follows frame {previous}")
class FrameOutOfOrder(Reason, frozen=True):
    number: int
    channel: bytes
    previous: int


@reason("Q3c", "frame", "frame {number} of channel {channel} is not the last, yet channel {next} starts")
class FrameOfUnclosedChannel(Reason, frozen=True):
    number: int
    channel: bytes
    next: bytes


@reason("Q3d", "frame", "frame {number} of channel {channel} does not continue channel {previous}")
class FrameNotFirst(Reason, frozen=True):
    number: int
    channel: bytes
    previous: bytes
