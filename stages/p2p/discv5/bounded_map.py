"""A least-recently-used map that is bounded in total and per group."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedMap(Generic[K, V]):
    """At most `max_size` entries, of which at most `max_per_group` belong to one group (such as an IP address)."""

    def __init__(self, max_size: int, max_per_group: int) -> None:
        self._max_size = max_size
        self._max_per_group = max_per_group
        self._entries: OrderedDict[K, tuple[bytes, V]] = OrderedDict()
        self._groups: dict[bytes, OrderedDict[K, None]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self._groups.clear()

    def get(self, key: K) -> V | None:
        """Return the value of a key, which counts as a use; None when it is absent."""
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        self._groups[found[0]].move_to_end(key)
        return found[1]

    def put(self, key: K, group: bytes, value: V) -> None:
        """Set a value; entries beyond the bounds are evicted, those of the same group first."""
        self.pop(key)
        members = self._groups.setdefault(group, OrderedDict())
        if len(members) >= self._max_per_group:
            self.pop(next(iter(members)))
            members = self._groups.setdefault(group, OrderedDict())
        if len(self._entries) >= self._max_size:
            self.pop(next(iter(self._entries)))
            members = self._groups.setdefault(group, OrderedDict())
        self._entries[key] = (group, value)
        members[key] = None

    def pop(self, key: K) -> V | None:
        """Remove an entry and returns its value."""
        found = self._entries.pop(key, None)
        if found is None:
            return None
        group, value = found
        members = self._groups[group]
        del members[key]
        if not members:
            del self._groups[group]
        return value
