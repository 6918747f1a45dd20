"""Ping: 32 bytes there and back, and the average of how long it took."""

from dataclasses import dataclass

PROTOCOL = "/ipfs/ping/1.0.0"
PING_BYTES = 32
_SMOOTHING = 0.1


@dataclass
class Latency:
    """The moving average of round-trip times of a peer, in seconds; None before the first."""

    average: float | None = None

    def add(self, seconds: float) -> None:
        """Counts a measurement in."""
        if self.average is None:
            self.average = seconds
        else:
            self.average += _SMOOTHING * (seconds - self.average)
