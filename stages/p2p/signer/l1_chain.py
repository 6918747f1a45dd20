"""The latest canonical L1 blocks, as the heads of L1 show them."""

from rollup_node.stages.protocol.types import Hash, L1BlockRef

MAX_BLOCKS = 1024


class L1Chain:
    """Numbers and hashes of the latest L1 blocks, as far down as the heads followed each other without a gap."""

    def __init__(self) -> None:
        self._hashes: dict[int, Hash] = {}
        self._newest = -1

    def hash_of(self, number: int) -> Hash | None:
        """Return the hash of the canonical L1 block of a number, None where it is unknown."""
        return self._hashes.get(number)

    def take(self, head: L1BlockRef) -> None:
        """Take a new head. One that is older, of an endpoint that is behind, changes nothing."""
        is_below = head.number < min(self._hashes, default=head.number)
        if is_below or self._hashes.get(head.number) == head.hash:
            return
        if self._hashes.get(head.number - 1) != head.parent_hash:
            self._hashes = {head.number - 1: head.parent_hash}
        for number in range(head.number, self._newest + 1):
            self._hashes.pop(number, None)
        self._hashes[head.number], self._newest = head.hash, head.number
        self._hashes.pop(head.number - MAX_BLOCKS, None)
