"""A queue that is fair between the keys of its items."""

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """Gives out one item of each key in turn, and the items of one key in their order."""

    def __init__(self) -> None:
        self._by_key: OrderedDict[Hashable, deque[Item]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def push(self, key: Hashable, item: Item) -> None:
        """Adds an item; a new key is the last in turn."""
        self._by_key.setdefault(key, deque()).append(item)

    def pop(self) -> Item:
        """Removes the next item. Raises IndexError if there is none."""
        if not self._by_key:
            raise IndexError("pop from an empty queue")
        key, items = self._by_key.popitem(last=False)
        item = items.popleft()
        if items:
            self._by_key[key] = items
        return item
