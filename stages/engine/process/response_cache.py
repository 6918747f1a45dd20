"""The responses of the engine process that a repeated request gets again, bounded in number and bytes."""

from collections import OrderedDict
from typing import Generic, TypeVar

from rollup_node.ipc.bus.bus import ProcessId

R = TypeVar("R")
Key = tuple[ProcessId, int]


class ResponseCache(Generic[R]):
    """The last responses, at most `most` of them and `most_bytes` in all. One that is larger alone is not kept, and its
    repeated request is handled again."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._responses: OrderedDict[Key, tuple[R, int]] = OrderedDict()
        self.size = 0
        """Bytes of all responses kept."""

    def __len__(self) -> int:
        return len(self._responses)

    def get(self, key: Key) -> R | None:
        """The response to a request, if it is kept."""
        found = self._responses.get(key)
        return None if found is None else found[0]

    def add(self, key: Key, response: R, size: int) -> None:
        """Keeps a response of `size` bytes in place of the oldest ones."""
        self.size -= self._responses.pop(key, (None, 0))[1]
        if size > self._most_bytes:
            return
        self._responses[key] = response, size
        self.size += size
        while len(self._responses) > self._most or self.size > self._most_bytes:
            _, (_, dropped) = self._responses.popitem(last=False)
            self.size -= dropped
