"""Warnings that come again and again while something is wrong, as few lines of log."""

import time
from collections.abc import Callable

from rollup_node.stages.io.log.logger import Logger

EVERY_SECONDS = 60.0


class RepeatedWarnings:
    """Logs the first warning of a kind at once, and then one in EVERY_SECONDS with `repeated`, how many were left out
    since. `clock` returns seconds of any monotonic clock. The kinds must be few and not chosen by others."""

    def __init__(self, logger: Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger, self._clock = logger, clock
        self._next: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def warn(self, kind: str, message: str, /, **fields: object) -> None:
        """A warning of a kind."""
        now = self._clock()
        if now < self._next.get(kind, now):
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return
        self._next[kind] = now + EVERY_SECONDS
        if left_out := self._left_out.pop(kind, 0):
            fields["repeated"] = left_out
        self._logger.warn(message, **fields)
