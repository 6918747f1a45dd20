"""A map that cannot grow beyond its bounds: it drops what was used longest ago, of a group that has too much first."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedMap(Generic[K, V]):
    """At most `most` entries, at most `most_per_group` of one group (such as an IP address)."""

    def __init__(self, most: int, most_per_group: int) -> None:
        self._most = most
        self._most_per_group = most_per_group
        self._entries: OrderedDict[K, tuple[bytes, V]] = OrderedDict()
        self._groups: dict[bytes, OrderedDict[K, None]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Drops everything."""
        self._entries.clear()
        self._groups.clear()

    def get(self, key: K) -> V | None:
        """The value, which counts as a use."""
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        self._groups[found[0]].move_to_end(key)
        return found[1]

    def put(self, key: K, group: bytes, value: V) -> None:
        """Sets a value; what is too much goes."""
        self.pop(key)
        members = self._groups.setdefault(group, OrderedDict())
        if len(members) >= self._most_per_group:
            self.pop(next(iter(members)))
            members = self._groups.setdefault(group, OrderedDict())
        if len(self._entries) >= self._most:
            self.pop(next(iter(self._entries)))
            members = self._groups.setdefault(group, OrderedDict())
        self._entries[key] = (group, value)
        members[key] = None

    def pop(self, key: K) -> V | None:
        """Takes an entry out."""
        found = self._entries.pop(key, None)
        if found is None:
            return None
        group, value = found
        members = self._groups[group]
        del members[key]
        if not members:
            del self._groups[group]
        return value
