"""Beacon slots: from the time of an L1 block to the slot whose blobs belong to it."""

from collections import Counter
from collections.abc import Sequence

import msgspec


class BeforeGenesisError(ValueError):
    """The time is before the beacon chain's genesis."""


class SlotClock(msgspec.Struct, frozen=True):
    """`genesis_time` in seconds, `slot_ms` in milliseconds."""

    genesis_time: int
    slot_ms: int

    def __str__(self) -> str:
        return f"genesis time {self.genesis_time}, {self.slot_ms} ms a slot"

    def slot_at(self, timestamp: int) -> int:
        """Return the slot of a time in seconds [BCN7]. Raises BeforeGenesisError."""
        if timestamp < self.genesis_time:
            raise BeforeGenesisError(
                f"L1 time {timestamp} is before the beacon chain's genesis at {self.genesis_time}: "
                "the beacon endpoint belongs to another chain"
            )
        return (timestamp - self.genesis_time) * 1000 // self.slot_ms

    def starts_slot(self, timestamp: int) -> bool:
        """Whether a slot starts at a time in seconds, as one does at that of every L1 block."""
        return timestamp >= self.genesis_time and (timestamp - self.genesis_time) * 1000 % self.slot_ms == 0


def choose_clock(genesis_times: Sequence[int], slots_ms: Sequence[int], timestamp: int) -> SlotClock:
    """Return the clock that fits an L1 block's time; of several, the one that most sources state [BCN16].

    Of equals the first. Neither list of statements may be empty."""
    votes, durations = Counter(genesis_times), Counter(slots_ms)
    clocks = [SlotClock(genesis, slot_ms) for genesis in votes for slot_ms in durations]
    return max(
        clocks,
        key=lambda clock: (clock.starts_slot(timestamp), votes[clock.genesis_time] + durations[clock.slot_ms]),
    )
