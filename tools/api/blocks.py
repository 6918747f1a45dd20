"""What a derivation gives: blocks with their batches and drops."""

from typing import TYPE_CHECKING, Any

import msgspec

from rollup_node.stages.messages.derivation import Drop, DropEffect
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.types import UNKNOWN_HASH, BlockId, Hash, L1BlockRef

if TYPE_CHECKING:
    from rollup_node.tools.inspect.channel_sources import BatchSource
    from rollup_node.tools.inspect.replay import BlockComparison

__all__ = ["Batch", "Block", "Drop", "DropEffect", "block_of"]


class Batch(msgspec.Struct, frozen=True):
    """The batch that a block was derived from.

    `kind` is "span" or "singular", `first_timestamp` the time of its first block in Unix seconds, `blocks` how many it
    has. `channel` is the id of its channel, `channel_bytes` the compressed size of that, and `l1_transactions` are the
    hashes of the transactions with its frames."""

    kind: str
    first_timestamp: int
    blocks: int
    channel: bytes
    channel_bytes: int
    l1_transactions: tuple[Hash, ...]


class Block(msgspec.Struct, frozen=True):
    """A derived L2 block.

    `attributes` are its payload attributes, `l1_origin` is its epoch, and `sequence_number` its place in that.
    `l1_inclusion` is the L1 block with which it became derivable. `batch` is None for an empty block that the rules
    make. `drops` is the input that was dropped since the block before, of which `drops_omitted` more were not kept.
    `hash` is that of the L2 source's block, None where that has none or another one; `differences` has a text for each
    field in which they differ."""

    number: int
    attributes: PayloadAttributes
    batch: Batch | None
    l1_origin: BlockId
    sequence_number: int
    l1_inclusion: L1BlockRef
    drops: tuple[Drop, ...]
    hash: Hash | None
    differences: tuple[str, ...] = ()
    drops_omitted: int = 0

    @property
    def timestamp(self) -> int:
        """The time of the block in Unix seconds."""
        return self.attributes.timestamp


def block_of(
    comparison: "BlockComparison", source: "BatchSource | None", drops: tuple[Drop, ...], omitted: int
) -> Block:
    """Return a derived block with what was dropped before it."""
    head = comparison.safe_head
    return Block(
        number=head.number,
        attributes=comparison.derived.attributes,
        batch=None if source is None else _batch(source),
        l1_origin=head.l1_origin,
        sequence_number=head.sequence_number,
        l1_inclusion=comparison.derived.derived_from,
        drops=drops,
        hash=None if head.hash == UNKNOWN_HASH else head.hash,
        differences=comparison.differences,
        drops_omitted=omitted,
    )


def _batch(source: "BatchSource") -> Batch:
    return Batch(
        source.kind,
        source.first_timestamp,
        source.blocks,
        source.channel,
        source.channel_bytes,
        source.transactions,
    )


def row_of(block: Block) -> dict[str, Any]:
    """Return the values of a block for a table, by the names of `tables.COLUMNS`."""
    attributes, batch = block.attributes, block.batch
    return {
        "number": block.number,
        "hash": block.hash,
        "timestamp": block.timestamp,
        "l1_origin": block.l1_origin.number,
        "sequence_number": block.sequence_number,
        "l1_inclusion": block.l1_inclusion.number,
        "l1_inclusion_time": block.l1_inclusion.timestamp,
        "transactions": len(attributes.transactions),
        "transaction_bytes": sum(map(len, attributes.transactions)),
        "gas_limit": attributes.gas_limit,
        "batch": None if batch is None else batch.kind,
        "batch_blocks": None if batch is None else batch.blocks,
        "channel": None if batch is None else batch.channel,
        "channel_bytes": None if batch is None else batch.channel_bytes,
        "drops": [drop.rule for drop in block.drops],
        "differences": list(block.differences),
    }
