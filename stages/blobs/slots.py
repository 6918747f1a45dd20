"""Beacon slots: from the time of an L1 block to the slot whose blobs belong to it."""

import msgspec


class BeforeGenesisError(ValueError):
    """The time is before the beacon chain's genesis."""


class SlotClock(msgspec.Struct, frozen=True):
    """`genesis_time` in seconds, `slot_ms` in milliseconds."""

    genesis_time: int
    slot_ms: int

    def slot_at(self, timestamp: int) -> int:
        """The slot of a time in seconds [BCN7]. Raises BeforeGenesisError."""
        if timestamp < self.genesis_time:
            raise BeforeGenesisError(
                f"L1 time {timestamp} is before the beacon chain's genesis at {self.genesis_time}: "
                "the beacon endpoint belongs to another chain"
            )
        return (timestamp - self.genesis_time) * 1000 // self.slot_ms
