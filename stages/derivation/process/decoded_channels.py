"""Results of decoding at hand: those that were asked for ahead, bounded in bytes, and those being worked on."""

from collections import OrderedDict

from rollup_node.stages.derivation.codec.batches import RefusedBatch
from rollup_node.stages.derivation.tasks import DecodedChannel


class ResultCache:
    """Results by key, the longest unused dropped first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._results: OrderedDict[bytes, tuple[DecodedChannel, int]] = OrderedDict()
        self.bytes = 0

    def __contains__(self, key: bytes) -> bool:
        return key in self._results

    def get(self, key: bytes) -> DecodedChannel | None:
        """A result, which counts as used now."""
        found = self._results.get(key)
        if found is None:
            return None
        self._results.move_to_end(key)
        return found[0]

    def put(self, key: bytes, result: DecodedChannel) -> None:
        """Keeps a result."""
        if key in self._results:
            return
        size = _size(result)
        self._results[key] = result, size
        self.bytes += size
        while self.bytes > self._max_bytes and len(self._results) > 1:
            _, (_, dropped) = self._results.popitem(last=False)
            self.bytes -= dropped


def _size(result: DecodedChannel) -> int:
    transactions = (
        transaction
        for batch in result.batches
        if not isinstance(batch, RefusedBatch)
        for transaction in batch.transactions
    )
    return 500 * (1 + len(result.batches)) + sum(33 + len(transaction) for transaction in transactions)
