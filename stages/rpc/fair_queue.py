"""A queue that is fair between the keys of its items."""

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """Gives out one item of each key in turn.

    Of the items of one key the urgent ones come first, each kind in its order."""

    def __init__(self) -> None:
        self._by_key: OrderedDict[Hashable, tuple[deque[Item], deque[Item]]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def push(self, key: Hashable, item: Item, *, urgent: bool = False) -> None:
        """Add an item; a new key is the last in turn."""
        first, later = self._by_key.setdefault(key, (deque(), deque()))
        (first if urgent else later).append(item)

    def pop(self) -> Item:
        """Remove the next item. Raises IndexError if there is none."""
        if not self._by_key:
            raise IndexError("pop from an empty queue")
        key, items = self._by_key.popitem(last=False)
        first, later = items
        item = (first or later).popleft()
        if first or later:
            self._by_key[key] = items
        return item
