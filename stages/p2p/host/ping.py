"""Ping: 32 random bytes are echoed. The latency of a peer is a moving average of the round-trip times.

Source: https://github.com/libp2p/specs/blob/master/ping/ping.md
"""

from dataclasses import dataclass

PROTOCOL = "/ipfs/ping/1.0.0"
PING_BYTES = 32
_SMOOTHING = 0.1


@dataclass
class Latency:
    """The moving average of a peer's round-trip times in seconds; None before the first measurement."""

    average: float | None = None

    def add(self, seconds: float) -> None:
        """Add a measurement."""
        if self.average is None:
            self.average = seconds
        else:
            self.average += _SMOOTHING * (seconds - self.average)
