"""When to say a thing again: needs are repeated until they are met, but not without pause."""

from collections.abc import Hashable


class Pacer:
    """Remembers what was said last under each name. Times are seconds of any steady clock."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._said: dict[Hashable, tuple[object, float]] = {}

    def due(self, name: Hashable, what: object, now: float) -> bool:
        """Whether to say `what` now: it is new under this name, or was said an interval ago. Counts as said."""
        said = self._said.get(name)
        if said is not None and said[0] == what and now - said[1] < self._interval:
            return False
        self._said[name] = what, now
        return True

    def keep(self, names: set[Hashable]) -> None:
        """Forgets all other names."""
        for name in self._said.keys() - names:
            del self._said[name]

    def clear(self) -> None:
        self._said.clear()
