"""Decoded channels that were prefetched and not yet used."""

from collections import OrderedDict

from rollup_node.stages.derivation.codec.batches import batch_memory
from rollup_node.stages.derivation.tasks import DecodedChannel

_RESULT_OVERHEAD = 500


class DecodedChannelCache:
    """Results by the key of their task, bounded in bytes; the least recently used go first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._results: OrderedDict[bytes, tuple[DecodedChannel, int]] = OrderedDict()
        self.bytes = 0

    def __contains__(self, key: bytes) -> bool:
        return key in self._results

    def get(self, key: bytes) -> DecodedChannel | None:
        """Return the result, if it is cached; counts as a use."""
        found = self._results.get(key)
        if found is None:
            return None
        self._results.move_to_end(key)
        return found[0]

    def peek(self, key: bytes) -> DecodedChannel | None:
        """Return the result, if it is cached; no use of it."""
        found = self._results.get(key)
        return None if found is None else found[0]

    def put(self, key: bytes, result: DecodedChannel) -> None:
        """Cache a result. The newest stays even if it alone exceeds the bound."""
        if key in self._results:
            return
        size = _size(result)
        self._results[key] = result, size
        self.bytes += size
        while self.bytes > self._max_bytes and len(self._results) > 1:
            _, (_, dropped) = self._results.popitem(last=False)
            self.bytes -= dropped


def _size(result: DecodedChannel) -> int:
    """Memory in bytes, about."""
    return _RESULT_OVERHEAD + sum(map(batch_memory, result.batches))
