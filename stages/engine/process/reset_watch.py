"""Watches for resets that repeat.

Each alone is everyday, but one that comes back for the same reason before a new block is safe means that derivation
does not get on."""

import re
import time
from collections.abc import Callable

from rollup_node.stages.io.log.lasting_conditions import LastingCondition
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code

SAME_RESETS = 3
QUIET_SECONDS = 120.0
_VALUES = re.compile("0x[0-9a-f]+|[0-9]+")


class ResetWatch:
    """Logs the resets: one by one, and as one condition from the third for the same reason on.

    Numbers and hashes in a reason do not make it another one. `show` takes the health problem, None when there is
    none."""

    def __init__(
        self, log: Logger, show: Callable[[Problem | None], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log, self._show, self._clock = log, show, clock
        self._condition = LastingCondition(log, clock)
        self._reason = ""
        self._times = self._highest = 0
        self._last_at = float("-inf")

    def reset(self, reason: str) -> None:
        """There was a reset."""
        kind = _VALUES.sub("", reason)
        self._times = self._times + 1 if kind == self._reason else 1
        self._reason, self._last_at = kind, self._clock()
        if self._times < SAME_RESETS:
            self._end()
            self._log.warn("resetting", code=Code.RESET.text, reason=reason)
            return
        self._condition.report(
            Code.RESET_LOOP, "resetting again for the same reason", resets=self._times, reason=reason
        )
        text = f"{self._times} resets for the same reason: {reason}"
        self._show(Problem(Code.RESET_LOOP, "", text))

    def processed(self, safe: int) -> None:
        """Note that a derived block was processed; `safe` is the number of the safe head.

        One that was not reached before ends a loop."""
        if safe > self._highest:
            self._highest = safe
            self._clear()

    def tick(self) -> None:
        """End a loop when there has been no reset for long."""
        if self._times and self._clock() - self._last_at > QUIET_SECONDS:
            self._clear()

    def _clear(self) -> None:
        if self._times:
            self._times, self._reason = 0, ""
            self._end()

    def _end(self) -> None:
        self._condition.end("resets do not repeat any more")
        self._show(None)
