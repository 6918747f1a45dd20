"""Error lines of work that is retried: few, however long it fails and however many parts of a process fail by the same
cause."""

from collections import deque
from collections.abc import Callable

REPEAT_SECONDS = 60.0
MAX_LINES = 10
"""Lines within REPEAT_SECONDS, whatever their texts; errors may contain what an endpoint chose."""

MAX_TEXT = 500


class RepeatedErrors:
    """Decides which errors of a process are logged: a text at once, then once in REPEAT_SECONDS while it comes again,
    and no more than MAX_LINES in that time. `clock` returns seconds of a monotonic clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._logged: dict[str, float] = {}
        self._lines: deque[float] = deque()
        self._left_out = 0

    def is_due(self, text: str) -> bool:
        """Whether to log an error now; if not it counts as left out."""
        now = self._clock()
        while self._lines and self._lines[0] <= now - REPEAT_SECONDS:
            self._lines.popleft()
        self._logged = {known: at for known, at in self._logged.items() if at > now - REPEAT_SECONDS}
        if text in self._logged or len(self._lines) >= MAX_LINES:
            self._left_out += 1
            return False
        self._logged[text] = now
        self._lines.append(now)
        return True

    def take_left_out(self) -> int:
        """How many errors were left out since the last call."""
        count, self._left_out = self._left_out, 0
        return count


def shortened(text: str) -> str:
    """An error text of at most MAX_TEXT characters."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."
