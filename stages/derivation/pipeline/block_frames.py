"""The batcher's data in an L1 block, parsed into frames.

A pure function of the block, its blobs, the batcher and the rules of the block's time. Prefetch parses ahead, and the
pipeline takes over what it parsed."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rollup_node.stages.derivation.codec.frames import Frame, parse_frames, prune_frames
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.commitments import VERSION
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.transactions import BLOB
from rollup_node.stages.protocol.types import Address, BlobRef, Hash, InboxTransaction, L1Block


class ItemFrames(NamedTuple):
    """The frames and drops of one data item, or an item that Alt-DA has to resolve before it can be parsed."""

    frames: Sequence[Frame]
    drops: Sequence[tuple[DropEffect, Reason]] = ()
    unresolved: bytes | None = None


class BlockFrames(NamedTuple):
    """An L1 block's parsed items in order, and its malformed blobs with why [O7]; for this block and batcher only."""

    block: Hash
    batcher: Address
    items: tuple[ItemFrames, ...]
    malformed: tuple[tuple[BlobRef, str], ...] = ()


def batcher_transactions(block: L1Block, batcher: Address) -> list[InboxTransaction]:
    """Return the inbox transactions that the batcher sent, in block order [BF4]."""
    return [transaction for transaction in block.inbox if transaction.sender == batcher]


def data_items(block: L1Block, batcher: Address, rules: L1Rules) -> list[bytes | BlobRef]:
    """Return the data items of the batcher's transactions in block order, blobs by reference.

    From Ecotone on, by the block's time, a blob transaction gives its blobs and not its calldata [O1 to O4]."""
    items: list[bytes | BlobRef] = []
    for transaction in batcher_transactions(block, batcher):
        if transaction.kind == BLOB and rules.blobs_as_data:
            items.extend(transaction.blobs)
        else:
            items.append(transaction.data)
    return items


def blob_refs(items: Iterable[bytes | BlobRef]) -> tuple[BlobRef, ...]:
    """Return the blobs among the items."""
    return tuple(item for item in items if isinstance(item, BlobRef))


def are_contents_of(contents: Sequence[BlobContent], blobs: Sequence[BlobRef]) -> bool:
    """Whether these are the contents of exactly these blobs, in this order [O5]."""
    return [content.hash for content in contents] == [blob.hash for blob in blobs]


def parse_block(
    block: Hash,
    batcher: Address,
    items: Iterable[bytes | BlobRef],
    contents: Sequence[BlobContent],
    rules: L1Rules,
    alt_da: bool = False,
) -> BlockFrames:
    """Parse the items of a block; `contents` are those of its blobs in order, as `are_contents_of` checks.

    With `alt_da` those are left unresolved that are empty or a commitment [AD3, AD4]."""
    parse = _parse_unless_commitment if alt_da else parse_item
    parsed: list[ItemFrames] = []
    malformed: list[tuple[BlobRef, str]] = []
    remaining = iter(contents)
    for item in items:
        if not isinstance(item, BlobRef):
            parsed.append(parse(item, rules))
            continue
        content = next(remaining)
        if content.data is None:
            malformed.append((item, content.refused or "refused"))
        else:
            parsed.append(parse(content.data, rules))
    return BlockFrames(block, batcher, tuple(parsed), tuple(malformed))


def _parse_unless_commitment(item: bytes, rules: L1Rules) -> ItemFrames:
    return parse_item(item, rules) if item and item[0] != VERSION else ItemFrames((), (), item)


def parse_item(item: bytes, rules: L1Rules) -> ItemFrames:
    """All frames of an item, or none if one is malformed [P11]; from Holocene on they are pruned [Q3]."""
    frames = parse_frames(item)
    if isinstance(frames, Reason):
        return ItemFrames((), ((DropEffect.IGNORED, frames),))
    if not rules.contiguous_frames:
        return ItemFrames(frames)
    kept, pruned = prune_frames(frames)
    return ItemFrames(kept, [(DropEffect.DROPPED, reason) for reason in pruned])
