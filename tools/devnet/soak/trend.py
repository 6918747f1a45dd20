"""Whether a figure of a long run stays flat, with bounded memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

MAX_VALUES = 256
WARM_UP = 0.1
"""The part of the values at the beginning that does not count."""

LEAST_VALUES = 8
"""With fewer values after the warm-up there is no trend."""


@dataclass(frozen=True)
class Quarters:
    """The medians of the first and of the last quarter of the values after the warm-up."""

    first: float
    last: float

    def grows(self, part: float, least: float) -> bool:
        """Whether the last is above the first by more than `part` of it and `least`."""
        return self.last > self.first * (1 + part) + least


class Trend:
    """The values of a figure, evenly spread over the run: of more than MAX_VALUES every second one is kept."""

    def __init__(self) -> None:
        self._values: list[float] = []
        self._every = 1
        self._met = 0

    def add(self, value: float) -> None:
        """Add the value of one more equal span of time."""
        if self._met % self._every == 0:
            self._values.append(value)
        self._met += 1
        if len(self._values) > MAX_VALUES:
            self._values = self._values[::2]
            self._every *= 2

    @property
    def values(self) -> Sequence[float]:
        """Those kept, oldest first."""
        return self._values

    def quarters(self) -> Quarters | None:
        """Return the medians that are compared; None with too few values."""
        counted = self._values[int(len(self._values) * WARM_UP) :]
        if len(counted) < LEAST_VALUES:
            return None
        quarter = len(counted) // 4
        return Quarters(median(counted[:quarter]), median(counted[-quarter:]))
