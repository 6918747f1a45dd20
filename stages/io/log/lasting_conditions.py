"""What is wrong for a while, as few lines of log: one when it begins, one a minute, and one when it ends."""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import FieldValue, seconds

EVERY_SECONDS = 60.0
MAX_TEXT = 500


class LastingCondition:
    """One condition, which is reported again by each attempt that fails [LOG15]; without `counts` none is counted.

    With `every` seconds of infinity it is logged once until it ends."""

    def __init__(
        self,
        logger: Logger,
        clock: Callable[[], float] = time.monotonic,
        *,
        counts: bool = True,
        every: float = EVERY_SECONDS,
    ) -> None:
        self._logger, self._clock, self._counts, self._every = logger, clock, counts, every
        self._ongoing: _Ongoing | None = None
        self._code: Code | None = None
        self._next = 0.0
        self._left_out = 0

    def report(self, code: Code, message: str, /, **fields: FieldValue) -> None:
        """Log a failure if it is the first, has another code than before, or comes a minute after the last line."""
        now = self._clock()
        ongoing = self._ongoing = self._ongoing or _Ongoing(now)
        ongoing.tried += 1
        if code is self._code and now < self._next:
            self._left_out += 1
            return
        if ongoing.tried > 1:
            fields |= ongoing.so_far(now, self._counts)
        if self._left_out and self._counts:
            fields["suppressed"] = self._left_out
        self._code, self._next, self._left_out = code, now + self._every, 0
        self._logger.warn(message, code=code.text, **fields, do=code.remedy)

    def end(self, message: str, /, **fields: FieldValue) -> None:
        """Log that the condition is over, if it was ever reported."""
        if self._ongoing is None or self._code is None:
            return
        self._logger.info(message, code=self._code.text, **fields, **self._ongoing.so_far(self._clock(), self._counts))
        self._ongoing, self._code, self._left_out = None, None, 0


@dataclass
class _Ongoing:
    began_at: float
    sources: set[str] = field(default_factory=set)
    tried: int = 0
    is_logged: bool = False

    def so_far(self, now: float, counts: bool = True) -> dict[str, FieldValue]:
        return {**seconds("waited", now - self.began_at), **({"tried": self.tried} if counts else {})}


class _Minutes:
    """When a line of each kind is due: one in EVERY_SECONDS."""

    def __init__(self) -> None:
        self._next: dict[Hashable, float] = {}
        self._left_out: dict[Hashable, int] = {}

    def due(self, kind: Hashable, now: float) -> int | None:
        """Return how many lines were left out before one that is due now; None if it is left out, too."""
        if now < self._next.get(kind, now):
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return None
        self._next[kind] = now + EVERY_SECONDS
        return self._left_out.pop(kind, 0)


class _Cause(NamedTuple):
    """What a source fails by: `reason` tells apart what has one code, empty where a code says it all."""

    code: Code
    reason: str


class LastingConditions:
    """The conditions of several sources; what some of them fail by alike is one condition [LOG15, LOG19].

    One that comes back within a minute of its last line is not logged again until the minute is over. Sources and
    reasons must be few."""

    def __init__(self, logger: Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger, self._clock = logger, clock
        self._causes: dict[str, _Cause] = {}
        self._ongoing: dict[_Cause, _Ongoing] = {}
        self._minutes = _Minutes()

    def report(self, source: str, code: Code, message: str, /, *, reason: str = "", **fields: FieldValue) -> None:
        """Log a failure of a source as one condition does; its condition before, if another, is over."""
        now, cause = self._clock(), _Cause(code, reason)
        if self._causes.get(source) != cause:
            self._leave(source)
        self._causes[source] = cause
        ongoing = self._ongoing.setdefault(cause, _Ongoing(now))
        ongoing.sources.add(source)
        ongoing.tried += 1
        if (left_out := self._minutes.due(cause, now)) is None:
            return
        if ongoing.tried > 1:
            fields |= ongoing.so_far(now)
        if left_out:
            fields["suppressed"] = left_out
        if reason:
            fields = {"reason": reason, **fields}
        ongoing.is_logged = True
        self._logger.warn(message, code=code.text, **fields, do=code.remedy)

    def end(self, source: str, message: str, /, **fields: FieldValue) -> None:
        """Log that a source has succeeded, if its condition was logged and no other source has it."""
        cause, ongoing = self._causes.get(source), self._leave(source)
        if cause is not None and ongoing is not None and ongoing.is_logged:
            self._logger.info(message, code=cause.code.text, **fields, **ongoing.so_far(self._clock()))

    def _leave(self, source: str) -> _Ongoing | None:
        """Take a source from its condition, which is returned if it was the last one."""
        cause = self._causes.pop(source, None)
        if cause is None:
            return None
        self._ongoing[cause].sources.discard(source)
        return None if self._ongoing[cause].sources else self._ongoing.pop(cause)


def shortened(text: str) -> str:
    """Return an error text of at most MAX_TEXT characters."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."


class RepeatedWarnings:
    """Logs the first warning of a kind, then one in EVERY_SECONDS with the number `repeated`; kinds are few."""

    def __init__(self, logger: Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger, self._clock, self._minutes = logger, clock, _Minutes()

    def warn(self, kind: str, message: str, /, **fields: FieldValue) -> None:
        """Log a warning of a kind, unless the last one is younger."""
        if (left_out := self._minutes.due(kind, self._clock())) is None:
            return
        if left_out:
            fields["repeated"] = left_out
        self._logger.warn(message, **fields)
