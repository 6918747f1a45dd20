"""How long a command waits for data: for ever, with a line now and then that says what for, or up to a timeout."""

from rollup_node.node.system.exit_codes import PROGRAM
from rollup_node.stages.protocol.texts import duration

FIRST_NOTICE = 15.0
NOTICE_INTERVAL = 60.0


class Patience:
    """The time since the last progress. `timeout` in seconds, None for none; times are of a monotonic clock."""

    def __init__(self, timeout: float | None, now: float) -> None:
        self._timeout = timeout
        self._since = now
        self._next_notice = now + FIRST_NOTICE

    def progress(self, now: float) -> None:
        """Begins again."""
        self._since, self._next_notice = now, now + FIRST_NOTICE

    def is_over(self, now: float) -> bool:
        """Whether the timeout has passed."""
        return self._timeout is not None and now - self._since > self._timeout

    def notice(self, now: float, reason: str) -> str:
        """The line for the operator when one is due, else nothing."""
        if now < self._next_notice:
            return ""
        self._next_notice = now + NOTICE_INTERVAL
        return f"{PROGRAM}: waiting for {duration(now - self._since)}: {reason}\n"
