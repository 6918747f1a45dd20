"""The batcher's data in one L1 block: calldata and blobs in transaction order (derivation-rules 3 F4, 4)."""

from collections import deque
from collections.abc import Sequence

from rollup_node.stages.derivation.pipeline.events import Trace
from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs
from rollup_node.stages.derivation.reasons.reasons import Effect, Why
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.transactions import BLOB
from rollup_node.stages.protocol.types import Address, BlobRef, Hash, InboxTransaction, L1Block


def batcher_transactions(block: L1Block, batcher: Address) -> list[InboxTransaction]:
    """The inbox transactions that the batcher sent."""
    return [transaction for transaction in block.inbox if transaction.sender == batcher]


def data_items(block: L1Block, batcher: Address, rules: L1Rules) -> list[bytes | BlobRef]:
    """Each calldata and each blob is an item of its own; blob transactions give their blobs only, once blobs count."""
    items: list[bytes | BlobRef] = []
    for transaction in batcher_transactions(block, batcher):
        if transaction.kind == BLOB and rules.blobs_as_data:
            items.extend(transaction.blobs)
        else:
            items.append(transaction.data)
    return items


def wanted_blobs(items: Sequence[bytes | BlobRef]) -> tuple[BlobRef, ...]:
    """The blobs among the items."""
    return tuple(item for item in items if isinstance(item, BlobRef))


class DataSource:
    """The data items of the L1 block that was opened last."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._items: deque[bytes | BlobRef] = deque()
        self._need: NeedBlobs | None = None

    def open(self, block: L1Block, batcher: Address, rules: L1Rules) -> None:
        """Takes up a block; the batcher is one value for all of it (F6)."""
        for transaction in block.inbox:
            if transaction.sender != batcher:
                self._trace.note(Effect.IGNORED, Why.SENDER(sender=transaction.sender, batcher=batcher))
        self._items = deque(data_items(block, batcher, rules))
        blobs = wanted_blobs(self._items)
        self._need = NeedBlobs(block.ref, blobs) if blobs else None

    def add_blobs(self, block_hash: Hash, contents: Sequence[BlobContent]) -> bool:
        """Brings the blobs of the block; False if they are not what is needed."""
        need = self._need
        if need is None or not self.is_waiting_for(block_hash):
            return False
        if [content.hash for content in contents] != [blob.hash for blob in need.blobs]:
            return False
        self._need = None
        remaining = iter(contents)
        decoded = [self._decoded(item, next(remaining)) if isinstance(item, BlobRef) else item for item in self._items]
        self._items = deque(data for data in decoded if data is not None)
        return True

    def is_waiting_for(self, block_hash: Hash) -> bool:
        """Whether the blobs of this block are needed."""
        return self._need is not None and self._need.block.hash == block_hash

    def _decoded(self, blob: BlobRef, content: BlobContent) -> bytes | None:
        if content.data is None:
            reason = Why.BLOB(index=blob.index, hash=blob.hash, problem=content.refused or "refused")
            self._trace.note(Effect.IGNORED, reason)
        return content.data

    def pop(self) -> bytes | NeedBlobs | None:
        """The next item; None when the block has no more."""
        if self._need is not None:
            return self._need
        if not self._items:
            return None
        item = self._items.popleft()
        assert isinstance(item, bytes)
        return item
