"""When to send a request again: needs are repeated until they are met, but not without a pause."""

from collections.abc import Hashable


class Throttle:
    """The last message sent under each name. Times are seconds of any steady clock."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._sent: dict[Hashable, tuple[object, float]] = {}

    def is_due(self, name: Hashable, message: object, now: float) -> bool:
        """Whether to send `message` now, which then counts as sent: it is new under this name, or an interval old."""
        sent = self._sent.get(name)
        if sent is not None and sent[0] == message and now - sent[1] < self._interval:
            return False
        self._sent[name] = message, now
        return True

    def retain(self, names: set[Hashable]) -> None:
        """Discards all other names."""
        for name in self._sent.keys() - names:
            del self._sent[name]

    def clear(self) -> None:
        """Discards all names: everything is due."""
        self._sent.clear()
