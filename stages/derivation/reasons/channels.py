"""Reasons of the channel bank and the channel assembler."""

from rollup_node.stages.derivation.reasons.reason import Reason, reason

# --- channel bank, before Holocene ---------------------------------------------------------------------------------


@reason("CB2", "channel", "channel {channel}, opened at L1 block {opened}, timed out after {timeout} blocks")
class ChannelTimedOut(Reason, frozen=True):
    channel: bytes
    opened: int
    timeout: int


@reason("CB5", "channel", "channel {channel} is incomplete: frame {number} is missing")
class ChannelIncomplete(Reason, frozen=True):
    channel: bytes
    number: int


@reason("CB8", "frame", "frame {number} of channel {channel}, opened at L1 block {opened}, which has timed out")
class FrameTooLate(Reason, frozen=True):
    number: int
    channel: bytes
    opened: int


@reason("CB9.1", "frame", "closing frame {number} of channel {channel}, which frame {end} closed before")
class FrameClosesClosedChannel(Reason, frozen=True):
    number: int
    channel: bytes
    end: int


@reason("CB9.2", "frame", "frame {number} of channel {channel} is a duplicate")
class FrameDuplicate(Reason, frozen=True):
    number: int
    channel: bytes


@reason("CB9.3", "frame", "frame {number} of channel {channel}, which ends with frame {end}")
class FrameBeyondEnd(Reason, frozen=True):
    number: int
    channel: bytes
    end: int


@reason("CB10", "frame", "frame {number} of channel {channel} is beyond its closing frame {end}")
class FrameSuperseded(Reason, frozen=True):
    number: int
    channel: bytes
    end: int


@reason("CB12", "channel", "channel {channel} was the oldest, with {size} bytes in the bank and a limit of {limit}")
class ChannelEvicted(Reason, frozen=True):
    channel: bytes
    size: int
    limit: int


# --- channel assembler, from Holocene ------------------------------------------------------------------------------


@reason("CA1", "channel", "channel {channel}, opened at L1 block {opened}, timed out after {timeout} blocks")
class StagingChannelTimedOut(Reason, frozen=True):
    channel: bytes
    opened: int
    timeout: int


@reason("CA3", "channel", "channel {channel} was incomplete when channel {next} started")
class StagingChannelReplaced(Reason, frozen=True):
    channel: bytes
    next: bytes


@reason("CA4", "frame", "frame {number} of channel {channel}, which has not started")
class FrameWithoutChannel(Reason, frozen=True):
    number: int
    channel: bytes


@reason("CA5", "frame", "frame {number} of channel {channel} while channel {staging} is being assembled")
class FrameOfOtherChannel(Reason, frozen=True):
    number: int
    channel: bytes
    staging: bytes


@reason("CA5", "frame", "frame {number} of channel {channel}, expected frame {expected}")
class FrameNotNext(Reason, frozen=True):
    number: int
    channel: bytes
    expected: int


@reason("CA6", "channel", "channel {channel} has {size} bytes, the limit is {limit}")
class StagingChannelTooLarge(Reason, frozen=True):
    channel: bytes
    size: int
    limit: int
