"""The latest blocks that the p2p process has: those that this node sequenced, and those from peers.

The engine process asks for those above its unsafe head, since its execution engine may have lost them [SEQ39]."""

from collections import OrderedDict
from typing import Protocol

from rollup_node.stages.p2p.signer.signed_blocks import BlockRecord
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, Hash

MAX_RECENT = 16
MAX_BLOCKS = 16
MAX_BYTES = 8 << 20
"""Blocks, and bytes of their transactions, that are returned at once; one block may be larger."""


class OwnBlocks(Protocol):
    """The blocks that this node sequenced: the last one that may be signed, what is known of one, and its payload."""

    @property
    def last(self) -> BlockRecord | None: ...
    def find(self, number: int, block_hash: Hash) -> BlockRecord | None: ...
    def payload(self, block_hash: Hash) -> ExecutionPayload | None: ...


class LatestBlocks:
    """`own` is None on a node that cannot keep the blocks that it signs, and so signs none."""

    def __init__(self, own: OwnBlocks | None) -> None:
        self._own = own
        self._recent: OrderedDict[Hash, ExecutionPayload] = OrderedDict()

    @property
    def recent(self) -> list[ExecutionPayload]:
        """The latest blocks from peers, in the order in which they arrived."""
        return list(self._recent.values())

    def add(self, payload: ExecutionPayload) -> None:
        """Add a block from a peer; of these the last MAX_RECENT are kept."""
        self._recent[payload.block_hash] = payload
        if len(self._recent) > MAX_RECENT:
            self._recent.popitem(last=False)

    def above(self, head: BlockId) -> tuple[ExecutionPayload, ...]:
        """Return the lowest of the latest blocks that descend from `head`, in order, with their payloads.

        Of two chains the one that is known to descend from it is taken, and of these the longer one. Blocks of peers
        alone must be known to descend from it: the others wait in the unsafe queue already."""
        own = None if self._own is None else self._own.last
        own_chain = [] if own is None else self._chain(own, head)
        highest = max(self._recent.values(), key=lambda payload: payload.block_number, default=None)
        others = [] if highest is None else self._chain(_record(highest), head)
        is_linked = bool(others) and others[0].parent_hash == head.hash
        is_own_linked = bool(own_chain) and own_chain[0].parent_hash == head.hash
        longer = bool(others) and (not is_own_linked or others[-1].number > own_chain[-1].number)
        return self._payloads(others if is_linked and longer else own_chain)

    def _chain(self, tip: BlockRecord, head: BlockId) -> list[BlockRecord]:
        """Return the blocks above the head up to `tip`, as far as known; none if they do not descend from it."""
        chain: list[BlockRecord] = []
        at: BlockRecord | None = tip
        while at is not None and at.number > head.number:
            chain.append(at)
            if at.number == head.number + 1:
                return chain[::-1] if at.parent_hash == head.hash else []
            at = self._find(at.number - 1, at.parent_hash)
        return chain[::-1]

    def _find(self, number: int, block_hash: Hash) -> BlockRecord | None:
        payload = self._recent.get(block_hash)
        if payload is not None:
            return _record(payload)
        return None if self._own is None else self._own.find(number, block_hash)

    def _payloads(self, chain: list[BlockRecord]) -> tuple[ExecutionPayload, ...]:
        payloads: list[ExecutionPayload] = []
        size = 0
        for item in chain:
            payload = self._payload(item.hash)
            if payload is None:
                continue
            size += sum(map(len, payload.transactions))
            if payloads and (len(payloads) == MAX_BLOCKS or size > MAX_BYTES):
                break
            payloads.append(payload)
        return tuple(payloads)

    def _payload(self, block_hash: Hash) -> ExecutionPayload | None:
        payload = self._recent.get(block_hash)
        return self._own.payload(block_hash) if payload is None and self._own is not None else payload


def _record(payload: ExecutionPayload) -> BlockRecord:
    return BlockRecord(payload.block_number, payload.block_hash, payload.parent_hash, None)
