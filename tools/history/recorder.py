"""Makes the rows of the tables out of what the pipeline's stages report while they read a range of L1 blocks."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import orjson

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.codec.frames import Frame
from rollup_node.stages.derivation.pipeline.channel_bank import PartialChannel
from rollup_node.stages.derivation.reasons.reason import Dropped, Reason
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.types import UNKNOWN_HASH, Address, BlobRef, Hash, L1Block, L1BlockRef, L2BlockRef
from rollup_node.tools.history.manifest import Block, L1Range, OpenChannel, State, digest_of
from rollup_node.tools.history.tables import Table
from rollup_node.tools.inspect.channel_sources import BlockSources, batch_shape

Row = dict[str, Any]
Sink = Callable[[Table, int, Row], None]
"""Takes a row of a table, at an L1 block of this time."""


class HistoryEvents(BlockSources):
    """Gives rows to `sink` from the first block of the range on.

    What is read before it is the warm-up, of which only the pieces of channels are kept. `l2_blocks` counts the rows
    of that table."""

    def __init__(self, config: RollupConfig, wanted: L1Range, sink: Sink) -> None:
        super().__init__(config)
        self.l2_blocks = 0
        self._config, self._range, self._sink = config, wanted, sink
        self._indexes: dict[Table, tuple[Hash, int]] = {}
        self._safe: tuple[L1BlockRef, L2BlockRef] | None = None

    # --- what the stages report ------------------------------------------------------------------------------------

    def block_opened(self, block: L1Block, batcher: Address) -> None:
        """Rows of `l1_inputs`."""
        super().block_opened(block, batcher)
        for index, transaction in enumerate(block.inbox):
            row = {
                "index": index,
                "transaction": _hex(transaction.hash),
                "type": transaction.kind,
                "sender": to_hex(transaction.sender),
                "is_batcher": transaction.sender == batcher,
                "bytes": len(transaction.data),
                "blobs": [to_hex(blob.hash) for blob in transaction.blobs],
            }
            self._write(Table.L1_INPUTS, block.ref, row)

    def item_parsed(
        self, block: L1Block, transaction: Hash, blob: BlobRef | None, number: int, frames: Sequence[Frame]
    ) -> None:
        """Rows of `frames`."""
        super().item_parsed(block, transaction, blob, number, frames)
        for index, frame in enumerate(frames):
            row = {
                "transaction": _hex(transaction),
                "blob": None if blob is None else to_hex(blob.hash),
                "item": number,
                "index": index,
                "channel": to_hex(frame.channel),
                "number": frame.number,
                "bytes": len(frame.data),
                "is_last": frame.is_last,
            }
            self._write(Table.FRAMES, block.ref, row)

    def channel_opened(self, channel: bytes, size: int) -> None:
        """Write a row of `channels`."""
        super().channel_opened(channel, size)
        row = {
            "channel": to_hex(channel),
            "opened": self.channel.opened if self.channel.frames else None,
            "bytes": size,
            "frames": self.channel.frames or None,
            "transactions": [to_hex(transaction) for transaction in self.transactions],
        }
        if self._block is not None:
            self._write(Table.CHANNELS, self._block.ref, row)

    def batch_read(self, channel: bytes, batch: SingularBatch | SpanBatch) -> None:
        """Write a row of `batches`."""
        super().batch_read(channel, batch)
        kind, time, blocks = batch_shape(batch)
        row = {
            "channel": to_hex(channel),
            "index": self._next_index(Table.BATCHES, self.origin),
            "kind": kind,
            "first_block": self._number_at(time),
            "first_time": _bounded(time),
            "blocks": blocks,
            "transactions": len(batch.transactions),
            "parent": to_hex(batch.parent_check if isinstance(batch, SpanBatch) else batch.parent_hash),
        }
        if self._block is not None:
            self._write(Table.BATCHES, self._block.ref, row)

    def drop(self, effect: DropEffect, reason: Reason) -> None:
        """Write a row of `drops`."""
        super().drop(effect, reason)
        origin = self.origin
        if origin is None:
            return
        row = {
            "index": self._next_index(Table.DROPS, origin),
            "effect": effect.value,
            "rule": reason.kind.rule,
            "reason": reason.name,
            "text": str(Dropped(effect, reason, origin)),
            "values": orjson.dumps({key: str(value) for key, value in reason.values.items()}).decode(),
        }
        self._write(Table.DROPS, origin, row)

    # --- what the derivation process knows --------------------------------------------------------------------------

    def block_derived(self, head: L2BlockRef, derived_from: L1BlockRef, attributes: PayloadAttributes) -> None:
        """Write a row of `l2_blocks`: the block of these attributes is the safe head."""
        if derived_from.number < self._range.first:
            return
        source, self.accepted = self.accepted, None
        row = {
            "number": head.number,
            "hash": known_hash(head.hash),
            "parent_hash": known_hash(head.parent_hash),
            "time": head.timestamp,
            "origin_number": head.l1_origin.number,
            "origin_hash": to_hex(head.l1_origin.hash),
            "sequence_number": head.sequence_number,
            "transactions": len(attributes.transactions),
            "bytes": sum(map(len, attributes.transactions)),
            "channel": None if source is None else to_hex(source.channel),
            "l1_transaction": to_hex(source.l1_transactions[-1]) if source and source.l1_transactions else None,
        }
        self._write(Table.L2_BLOCKS, derived_from, row)
        self.l2_blocks += 1
        if self._safe is not None and self._safe[0] != derived_from:
            self.block_read()
        self._safe = derived_from, head

    def block_read(self) -> None:
        """Write a row of `safe_heads`, if the L1 block that has been read made L2 blocks safe."""
        if self._safe is not None:
            origin, head = self._safe
            row = {"l2_number": head.number, "l2_hash": known_hash(head.hash)}
            self._write(Table.SAFE_HEADS, origin, row)
            self._safe = None

    # --- rows ------------------------------------------------------------------------------------------------------

    def _next_index(self, table: Table, block: L1BlockRef | None) -> int:
        """Return the number of the table's next row at this L1 block, from 0."""
        key = b"" if block is None else block.hash
        last, index = self._indexes.get(table, (b"", 0))
        index = index if last == key else 0
        self._indexes[table] = key, index + 1
        return index

    def _number_at(self, time: int) -> int | None:
        """Return the number of the L2 block of this time; None where there is none."""
        number, rest = divmod(time - self._config.genesis.l2_time, self._config.block_time)
        return _bounded(self._config.genesis.l2.number + number) if rest == 0 and number >= 0 else None

    def _write(self, table: Table, block: L1BlockRef, row: Row) -> None:
        if self._range.first <= block.number <= self._range.last:
            first = {"l1_number": block.number, "l1_hash": to_hex(block.hash), "l1_time": block.timestamp}
            self._sink(table, block.timestamp, first | row)


def state_of(
    origin: L1BlockRef,
    batcher: Address,
    safe: L2BlockRef,
    config: SystemConfig,
    channels: tuple[PartialChannel, ...],
) -> State:
    """Return the state of derivation when `origin` has been read.

    Of the system config at `origin` the batcher is all that derivation uses; `config` is the one that the safe head
    carries."""
    return State(
        Block(origin.number, to_hex(origin.hash)),
        Block(safe.number, known_hash(safe.hash)),
        Block(safe.l1_origin.number, to_hex(safe.l1_origin.hash)),
        digest_of((batcher, config)),
        tuple(open_channel(channel) for channel in channels),
    )


def open_channel(channel: PartialChannel) -> OpenChannel:
    """Return a channel as the manifest has it."""
    digest = sha256()
    for data in channel.frames.values():
        digest.update(len(data).to_bytes(4, "big"))
        digest.update(data)
    return OpenChannel(to_hex(channel.id), channel.opened, tuple(channel.frames), digest.hexdigest())


def known_hash(value: Hash) -> str | None:
    """Return a hash in hex; None for that of a block that the L2 source lacks."""
    return None if value == UNKNOWN_HASH else to_hex(value)


def _hex(value: bytes) -> str | None:
    return to_hex(value) if value else None


def _bounded(value: int) -> int | None:
    """Return a number as a signed integer of 64 bits; None above: a batch may contain any time."""
    return value if value < 1 << 63 else None
