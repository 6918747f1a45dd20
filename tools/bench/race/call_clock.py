"""How long at least one engine call is open, and how long the engine waits from an answer to the next call."""

import time

PERCENTILES = (50, 99)


class CallClock:
    """Notes when calls come and are answered, from `start` on, in seconds."""

    def __init__(self) -> None:
        self._open = 0
        self._since = self._started = self._busy = 0.0
        self._gaps: list[float] = []

    def opened(self) -> None:
        """Note that a call has come."""
        now = time.perf_counter()
        if not self._open:
            self._gaps.append(now - self._since)
            self._since = now
        self._open += 1

    def closed(self) -> None:
        """Note that a call is answered."""
        self._open -= 1
        if not self._open:
            now = time.perf_counter()
            self._busy += now - self._since
            self._since = now

    def start(self) -> None:
        """Forget what was; the call that is open counts from now on."""
        self._since = self._started = time.perf_counter()
        self._busy = 0.0
        self._gaps.clear()

    def busy_percent(self) -> float:
        """Return the share of the time since `start` in which a call was open."""
        now = time.perf_counter()
        busy = self._busy + (now - self._since if self._open else 0.0)
        return 100 * busy / max(now - self._started, 1e-9)

    def gaps_ms(self) -> list[float]:
        """Return the time from an answer to the next call in milliseconds, at each of PERCENTILES of the calls."""
        gaps = sorted(self._gaps) or [0.0]
        return [1000 * gaps[min(len(gaps) - 1, len(gaps) * percent // 100)] for percent in PERCENTILES]
