"""Conditions that last, as few lines of log: one when it begins, one a minute while it lasts, and one when it ends."""

import time
from collections.abc import Callable

from rollup_node.stages.io.log import Logger
from rollup_node.stages.messages.codes import Code

EVERY_SECONDS = 60.0


class LastingCondition:
    """One condition, which is reported again by each attempt that fails [LOG15]; without `counts` the reports are no
    attempts, and their number is not shown. `clock` returns seconds of any monotonic clock."""

    def __init__(self, logger: Logger, clock: Callable[[], float] = time.monotonic, *, counts: bool = True) -> None:
        self._logger, self._clock, self._counts = logger, clock, counts
        self._began_at: float | None = None
        self._code: Code | None = None
        self._next = 0.0
        self._tried = self._left_out = 0

    def report(self, code: Code, message: str, /, **fields: object) -> None:
        """An attempt has failed. It is logged if it is the first, if the code is another than before, or a minute after
        the last line."""
        now = self._clock()
        if self._began_at is None:
            self._began_at = now
        self._tried += 1
        if code is self._code and now < self._next:
            self._left_out += 1
            return
        if self._tried > 1:
            fields |= self._so_far(now)
        if self._left_out and self._counts:
            fields["suppressed"] = self._left_out
        self._code, self._next, self._left_out = code, now + EVERY_SECONDS, 0
        self._logger.warn(message, code=code.text, **fields, do=code.remedy)

    def end(self, message: str, /, **fields: object) -> None:
        """The condition is over; nothing happens if it was never reported."""
        if self._began_at is None or self._code is None:
            return
        self._logger.info(message, code=self._code.text, **fields, **self._so_far(self._clock()))
        self._began_at, self._code, self._tried, self._left_out = None, None, 0, 0

    def _so_far(self, now: float) -> dict[str, object]:
        waited = now - (now if self._began_at is None else self._began_at)
        return {"waited": f"{waited:.0f}s", **({"tried": self._tried} if self._counts else {})}
