"""Makes the rows of the tables out of what the pipeline's stages report while they read a range of L1 blocks."""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import orjson

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.pipeline.block_frames import BlockFrames, batcher_transactions
from rollup_node.stages.derivation.pipeline.channel_bank import PartialChannel
from rollup_node.stages.derivation.pipeline.outputs import PipelineEvents
from rollup_node.stages.derivation.reasons.reason import Dropped, Reason
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.transactions import BLOB
from rollup_node.stages.protocol.types import UNKNOWN_HASH, Address, Hash, L1Block, L1BlockRef, L2BlockRef
from rollup_node.tools.history.manifest import Block, L1Range, OpenChannel, State, digest_of
from rollup_node.tools.history.tables import Table

MAX_CHANNELS = 10_000
"""Channels whose frames are remembered until they are read; with more, the oldest is forgotten."""
MAX_TRANSACTIONS = 10_000
"""L1 transactions that are remembered of one channel."""
MAX_READ_BATCHES = 200_000
"""Batches whose channel is remembered until they are accepted, the oldest forgotten first. A queue of batches holds
fewer in practice; a block of a forgotten one has no channel."""

Row = dict[str, Any]
Sink = Callable[[Table, int, Row], None]
"""Takes a row of a table, at an L1 block of this time."""


class _Pieces:
    """What was read of a channel: the L1 block of its first frame, its frames, and their L1 transactions in order."""

    def __init__(self, opened: int) -> None:
        self.opened = opened
        self.frames = 0
        self.transactions: dict[str, None] = {}


class HistoryEvents(PipelineEvents):
    """Gives rows to `sink` from the first block of the range on.

    What is read before it is the warm-up, of which only the pieces of channels are kept. `l2_blocks` counts the rows
    of that table."""

    def __init__(self, config: RollupConfig, wanted: L1Range, sink: Sink) -> None:
        super().__init__()
        self.l2_blocks = 0
        self._config, self._range, self._sink = config, wanted, sink
        self._block: L1Block | None = None
        self._batcher: Address = b""
        self._pieces: dict[bytes, _Pieces] = {}
        self._sources: dict[int, tuple[bytes, str | None]] = {}
        self._last_transaction: str | None = None
        self._indexes: dict[Table, tuple[Hash, int]] = {}
        self._accepted: tuple[bytes, str | None] | None = None
        self._span_block: tuple[SingularBatch, tuple[bytes, str | None] | None] | None = None
        self._safe: tuple[L1BlockRef, L2BlockRef] | None = None

    # --- what the stages report ------------------------------------------------------------------------------------

    def block_opened(self, block: L1Block, batcher: Address) -> None:
        """Rows of `l1_inputs`."""
        self._block, self._batcher = block, batcher
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

    def frames_parsed(self, frames: BlockFrames) -> None:
        """Rows of `frames`. The items are those of the batcher's transactions in order, without malformed blobs."""
        block = self._block
        if block is None or block.header.hash != frames.block:
            return
        malformed = dict(frames.malformed)
        items, number = iter(frames.items), 0
        is_blob_data = self._config.schedule().l1(block.header.timestamp).blobs_as_data
        for transaction in batcher_transactions(block, frames.batcher):
            is_calldata = transaction.kind != BLOB or not is_blob_data
            for blob in (None,) if is_calldata else transaction.blobs:
                if blob is not None and blob in malformed:
                    number += 1
                    continue
                for index, frame in enumerate(next(items).frames):
                    self._add_piece(frame.channel, _hex(transaction.hash), block.header.number)
                    row = {
                        "transaction": _hex(transaction.hash),
                        "blob": None if blob is None else to_hex(blob.hash),
                        "item": number,
                        "index": index,
                        "channel": to_hex(frame.channel),
                        "number": frame.number,
                        "bytes": len(frame.data),
                        "is_last": frame.is_last,
                    }
                    self._write(Table.FRAMES, block.ref, row)
                number += 1

    def channel_opened(self, channel: bytes, size: int) -> None:
        """Write a row of `channels`."""
        pieces = self._pieces.pop(channel, None)
        transactions = [] if pieces is None else list(pieces.transactions)
        self._last_transaction = transactions[-1] if transactions else None
        row = {
            "channel": to_hex(channel),
            "opened": None if pieces is None else pieces.opened,
            "bytes": size,
            "frames": None if pieces is None else pieces.frames,
            "transactions": transactions,
        }
        if self._block is not None:
            self._write(Table.CHANNELS, self._block.ref, row)

    def batch_read(self, channel: bytes, batch: SingularBatch | SpanBatch) -> None:
        """Write a row of `batches`."""
        self._sources.pop(id(batch), None)
        self._sources[id(batch)] = channel, self._last_transaction
        if len(self._sources) > MAX_READ_BATCHES:
            del self._sources[next(iter(self._sources))]
        is_span = isinstance(batch, SpanBatch)
        time = batch.first_timestamp if isinstance(batch, SpanBatch) else batch.timestamp
        row = {
            "channel": to_hex(channel),
            "index": self._next_index(Table.BATCHES, self.origin),
            "kind": "span" if is_span else "singular",
            "first_block": self._number_at(time),
            "first_time": _bounded(time),
            "blocks": batch.block_count if isinstance(batch, SpanBatch) else 1,
            "transactions": len(batch.transactions),
            "parent": to_hex(batch.parent_check if isinstance(batch, SpanBatch) else batch.parent_hash),
        }
        if self._block is not None:
            self._write(Table.BATCHES, self._block.ref, row)

    def span_block(self, span: SpanBatch, batch: SingularBatch) -> None:
        """Remember which channel a block of a span comes from."""
        self._span_block = batch, self._sources.get(id(span))

    def batch_accepted(self, batch: SingularBatch) -> None:
        """Remember which channel the next L2 block comes from; an empty batch comes from none."""
        if self._span_block is not None and self._span_block[0] is batch:
            self._accepted = self._span_block[1]
        else:
            self._accepted = self._sources.pop(id(batch), None)

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
        source, self._accepted = self._accepted, None
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
            "channel": None if source is None else to_hex(source[0]),
            "l1_transaction": None if source is None else source[1],
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

    def _add_piece(self, channel: bytes, transaction: str | None, number: int) -> None:
        pieces = self._pieces.setdefault(channel, _Pieces(number))
        pieces.frames += 1
        if transaction is not None and len(pieces.transactions) < MAX_TRANSACTIONS:
            pieces.transactions[transaction] = None
        if len(self._pieces) > MAX_CHANNELS:
            del self._pieces[next(iter(self._pieces))]

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
