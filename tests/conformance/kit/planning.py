"""L2 blocks as a sequencer plans them, and the batches and channels in which a batcher puts them on L1."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.types import BlockId, Hash, L2BlockRef
from rollup_node.tools.batcher.batches import BatchBlock, singular_batch, span_batch
from rollup_node.tools.batcher.channels import Compression, batcher_data, channel_body, frames
from tests.conformance.kit.chain import FIRST_L1, GENESIS_TIME, L2_BLOCK_TIME, l1_hash, l1_time
from tests.conformance.kit.notation import channel_id

USER = rlp.encode([b"\x07", b"\x09", b"\x52\x08", b"\x44" * 20, b"\x05", b"", b"\x1b", b"\x11" * 32, b"\x22" * 32])
"""A user's transaction (legacy, v = 27)."""
OTHER_USER = rlp.encode(
    [b"\x07", b"\x09", b"\x52\x08", b"\x44" * 20, b"\x06", b"", b"\x1c", b"\x11" * 32, b"\x22" * 32]
)
"""Another one, with v = 28."""
POST_EXEC = b"\x7d\xc3\x01\x05\xc0"
"""A post-exec transaction: version 1, block 5, no refunds."""


class HasRef(Protocol):
    """A planned or a derived block."""

    @property
    def ref(self) -> L2BlockRef: ...


def l2_hash(parent: Hash, timestamp: int, origin: BlockId, transactions: Sequence[bytes]) -> Hash:
    """Return the hash of an L2 block of this chain; `transactions` are those of users."""
    return sha256(repr((parent, timestamp, origin, tuple(transactions))).encode()).digest()


@dataclass(frozen=True)
class Planned:
    """A block that a sequencer made: its reference and its user transactions."""

    ref: L2BlockRef
    transactions: tuple[bytes, ...]

    @property
    def batch(self) -> BatchBlock:
        return BatchBlock(self.ref.parent_hash, self.ref.timestamp, self.ref.l1_origin, self.transactions)

    @property
    def singular(self) -> bytes:
        """The block alone as an encoded batch, its type byte first."""
        return singular_batch(self.batch)


def child(
    parent: L2BlockRef,
    transactions: Sequence[bytes] = (USER,),
    epoch: int | None = None,
    *,
    time: int | None = None,
    epoch_hash: Hash | None = None,
) -> Planned:
    """Return the block after `parent`. Without `epoch` its origin is the next L1 block as soon as time allows."""
    timestamp = parent.timestamp + L2_BLOCK_TIME if time is None else time
    if epoch is None:
        epoch = parent.l1_origin.number
        epoch += l1_time(epoch + 1) <= timestamp
    origin = BlockId(epoch, l1_hash(epoch) if epoch_hash is None else epoch_hash)
    sequence = 0 if epoch != parent.l1_origin.number else parent.sequence_number + 1
    key = l2_hash(parent.hash, timestamp, origin, transactions)
    ref = L2BlockRef(key, parent.number + 1, parent.hash, timestamp, origin, sequence)
    return Planned(ref, tuple(transactions))


def plan(parent: L2BlockRef, count: int, transactions: Sequence[bytes] = (USER,)) -> list[Planned]:
    """`count` blocks one after the other."""
    result: list[Planned] = []
    for _ in range(count):
        result.append(child(parent, transactions))
        parent = result[-1].ref
    return result


def along(parent: L2BlockRef, *rows: int | tuple[int, tuple[bytes, ...]]) -> list[Planned]:
    """Return blocks with these epochs, by their distance from genesis', and transactions."""
    result: list[Planned] = []
    for row in rows:
        epoch, transactions = (row, (USER,)) if isinstance(row, int) else row
        result.append(child(parent, transactions, FIRST_L1 + epoch))
        parent = result[-1].ref
    return result


def refs(blocks: Iterable[HasRef]) -> list[L2BlockRef]:
    """Return the references of planned or derived blocks."""
    return [block.ref for block in blocks]


def singulars(blocks: Iterable[Planned]) -> list[bytes]:
    """Each block as a singular batch."""
    return [block.singular for block in blocks]


def span(blocks: Sequence[Planned], parent_epoch: int | None = None) -> bytes:
    """Return the blocks as one encoded span batch, its type byte first.

    `parent_epoch` is the L1 origin number before the first block."""
    first = blocks[0].ref
    if parent_epoch is None:
        parent_epoch = first.l1_origin.number - (first.sequence_number == 0)
    return span_batch([block.batch for block in blocks], GENESIS_TIME, parent_epoch)


def channel(name: str, *batches: bytes, pieces: int = 1, compression: Compression = Compression.ZLIB) -> list[bytes]:
    """Data items with one frame each, of a channel with these batches."""
    body = channel_body(batches, compression)
    size = -(-len(body) // pieces) + 23
    result = [batcher_data([frame]) for frame in frames(channel_id(name), body, size)]
    assert len(result) == pieces
    return result
