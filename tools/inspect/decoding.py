"""Decodes batches from files without L1, with the deriver's parsers.

Files have transactions, blobs, frames, channel bodies or batches.

Batches are decoded, not checked against a chain. Rules that depend on time are applied in their widest form unless fork
times are given. Then the time of the L1 block in which a channel ended decides or, where it is not given, the first
timestamp of the channel's first batch."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from rollup_node.stages.blobs.tasks import BLOB_SIZE, BlobDataError, decode_blob
from rollup_node.stages.derivation.codec.batches import RejectedBatch
from rollup_node.stages.derivation.codec.channel_body import open_body, read_items
from rollup_node.stages.derivation.codec.frames import Frame, parse_frames
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.pipeline.batch_checks import transaction_rejection
from rollup_node.stages.derivation.pipeline.channel_bank import ChannelFrames
from rollup_node.stages.derivation.pipeline.channel_reader import read_rejection
from rollup_node.stages.derivation.reasons.channels import (
    ChannelEvicted,
    ChannelIncomplete,
    FrameSuperseded,
    StreamExhausted,
)
from rollup_node.stages.derivation.reasons.reason import Dropped, Reason
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.transactions import BLOB, TransactionError, decode_transaction
from rollup_node.stages.protocol.types import Hash
from rollup_node.tools.inspect.lazy_batches import (
    LazyBatch,
    LazySingularBatch,
    LazySpanBatch,
    lazy_batch,
    lazy_raw_span,
)

MAX_HELD = 32_000_000
"""Bytes of frames of incomplete channels; with more, the oldest channel is dropped."""

_FRAME_FIELDS = 23
"""Bytes of a frame beyond its data."""
_WIDEST = ForkSchedule(dict.fromkeys(FORK_NAMES, 0), 2, 300, 600)


class DecodingRules(msgspec.Struct, frozen=True):
    """The chain's constants.

    Its forks, or None for rules in their widest form; the time in seconds of the L1 block at which everything is
    read, or None for the times of the batches."""

    span: SpanRules
    schedule: ForkSchedule | None = None
    l1_time: int | None = None


class Position(NamedTuple):
    """An offset in a file, or in the decompressed bytes of a channel whose frames come from one or more files.

    The L1 transactions with the frames are known where the files are transactions."""

    files: tuple[str, ...]
    offset: int = 0
    channel: bytes | None = None
    decompressed: bool = False
    transactions: tuple[Hash, ...] = ()

    def __str__(self) -> str:
        more = f" and {len(self.files) - 3} more" if len(self.files) > 3 else ""
        channel = "" if self.channel is None else f"channel {self.channel.hex()}, "
        offset = f"decompressed offset {self.offset}" if self.decompressed else f"offset {self.offset}"
        return f"{', '.join(self.files[:3])}{more}: {channel}{offset}"


class DecodeFailure(NamedTuple):
    """Data that was not decoded, or would be dropped: its position, the rule, and a text that ends with the rule."""

    position: Position
    rule: str
    text: str


class FoundBatch(NamedTuple):
    """A decoded batch, and the size of its channel's compressed body if it has one.

    Must be used before the next output is taken from the decoder."""

    position: Position
    batch: LazyBatch
    channel_bytes: int | None = None


DecoderOutput = FoundBatch | DecodeFailure


class _OpenChannel:
    """An incomplete channel, the files and L1 transactions of its frames, and the size of the frames in bytes."""

    def __init__(self) -> None:
        self.frames = ChannelFrames(0)
        self.files: dict[str, None] = {}
        self.transactions: dict[Hash, None] = {}
        self.size = 0


class Decoder:
    """Reads files of one kind, one after the other; frames are joined by channel over all of them."""

    def __init__(self, rules: DecodingRules, kind: str) -> None:
        self._rules = rules
        self._schedule = rules.schedule or _WIDEST
        self._read = READERS[kind]
        self._open_channels: OrderedDict[bytes, _OpenChannel] = OrderedDict()
        self._held = 0

    def read(self, file: str, data: bytes) -> Iterator[DecoderOutput]:
        """Return the batches that this file completes, and failures."""
        return self._read(self, file, data)

    def finish(self) -> Iterator[DecoderOutput]:
        """Yield the failures of incomplete channels, with the batches at their beginnings."""
        while self._open_channels:
            channel, open_channel = self._open_channels.popitem(last=False)
            count, body = open_channel.frames.contiguous()
            position = _position_of(channel, open_channel)
            del open_channel
            reason = ChannelIncomplete(channel, count)
            yield DecodeFailure(position._replace(decompressed=False), reason.kind.rule, _with_rule(reason))
            if body:
                yield from self._channel(position, body)

    # --- kinds of files --------------------------------------------------------------------------------------------

    def _blob(self, file: str, blob: bytes) -> Iterator[DecoderOutput]:
        try:
            data = decode_blob(blob)
        except BlobDataError as error:
            text = f"blob ignored: {error}"
            if len(blob) != BLOB_SIZE:
                sizes = f"it has {len(blob):,} bytes, and a blob has {BLOB_SIZE:,}, or their hex"
                text = f"{sizes}: perhaps --as data [{error.rule}]"
            yield DecodeFailure(Position((file,)), error.rule, text)
            return
        yield from self._data(f"{file} (data of the blob)", data)

    def _transaction(self, file: str, raw: bytes) -> Iterator[DecoderOutput]:
        try:
            transaction = decode_transaction(raw)
        except TransactionError as error:
            yield DecodeFailure(Position((file,)), "BF1", f"no L1 transaction: {error} [BF1]")
            return
        name = to_hex(keccak256(raw))
        if transaction.kind == BLOB:
            blobs = ", ".join(map(to_hex, transaction.blob_hashes[:6]))
            text = f"the data of transaction {name} are in its blobs, to be read with --as blob: {blobs} [O2]"
            yield DecodeFailure(Position((file,)), "O2", text)
            return
        yield from self._data(f"{file} (data of the transaction)", transaction.data, (keccak256(raw),))

    def _data(self, file: str, data: bytes, transactions: tuple[Hash, ...] = ()) -> Iterator[DecoderOutput]:
        frames = parse_frames(data)
        if isinstance(frames, Reason):
            yield _failure(Position((file,), _offset_of(frames)), DropEffect.IGNORED, frames)
            return
        at = 1
        frames.reverse()
        while frames:
            frame = frames.pop()
            yield from self._frame(Position((file,), at, frame.channel, transactions=transactions), frame)
            at += _FRAME_FIELDS + len(frame.data)

    def _body(self, file: str, body: bytes) -> Iterator[DecoderOutput]:
        return self._channel(Position((file,), 0, None, True), body)

    def _batch(self, file: str, item: bytes) -> Iterator[DecoderOutput]:
        return self._one(Position((file,)), lambda: lazy_batch(item, self._rules.span))

    def _raw_span(self, file: str, data: bytes) -> Iterator[DecoderOutput]:
        return self._one(Position((file,)), lambda: lazy_raw_span(data, self._rules.span))

    # --- frames to channels ----------------------------------------------------------------------------------------

    def _frame(self, position: Position, frame: Frame) -> Iterator[DecoderOutput]:
        open_channel = self._open_channels.get(frame.channel) or self._open(frame.channel)
        open_channel.files[position.files[0]] = None
        open_channel.transactions |= dict.fromkeys(position.transactions)
        rejection = open_channel.frames.rejection(frame)
        if rejection is not None:
            yield _failure(position, DropEffect.IGNORED, rejection)
            return
        open_channel.size += frame.size
        self._held += frame.size
        for number in open_channel.frames.add(frame):
            reason = FrameSuperseded(number, frame.channel, frame.number)
            yield _failure(position, DropEffect.DROPPED, reason)
        if open_channel.frames.is_ready():
            self._remove(frame.channel)
            complete, body = _position_of(frame.channel, open_channel), open_channel.frames.contiguous()[1]
            del open_channel
            yield from self._channel(complete, body)
        while self._held > MAX_HELD:
            oldest = next(iter(self._open_channels))
            evicted = ChannelEvicted(oldest, self._held, MAX_HELD)
            self._remove(oldest)
            yield _failure(position, DropEffect.DROPPED, evicted)

    def _open(self, channel: bytes) -> _OpenChannel:
        self._open_channels[channel] = _OpenChannel()
        return self._open_channels[channel]

    def _remove(self, channel: bytes) -> None:
        self._held -= self._open_channels.pop(channel).size

    # --- channels to batches ---------------------------------------------------------------------------------------

    def _channel(self, position: Position, body: bytes) -> Iterator[DecoderOutput]:
        """Yield the batches of a channel body, and the failure that ended it."""
        rules, time = self._l1_rules(self._first_time(body))
        reader = open_body(body, rules.max_rlp_bytes_per_channel, rules.brotli)
        if isinstance(reader, Reason):
            yield _failure(position._replace(decompressed=False), DropEffect.ENDED, reader)
            return
        offset = 0
        for item in read_items(reader, rules.max_rlp_bytes_per_channel):
            if isinstance(item, Reason):
                if item.kind is not StreamExhausted or not offset:
                    yield _failure(position._replace(offset=offset), DropEffect.ENDED, item)
                return
            batch = lazy_batch(item, self._rules.span)
            yield from self._checked(position._replace(offset=offset), batch, rules, time, len(body))
            if isinstance(batch, Reason):
                return
            offset += _encoded_size(item)

    def _first_time(self, body: bytes) -> int | None:
        """Return the first timestamp of the first batch if the rules depend on it, else None."""
        if self._rules.schedule is None or self._rules.l1_time is not None:
            return None
        rules = _WIDEST.l1(0)
        reader = open_body(body, rules.max_rlp_bytes_per_channel, rules.brotli)
        if isinstance(reader, Reason):
            return None
        item = next(read_items(reader, rules.max_rlp_bytes_per_channel))
        batch = item if isinstance(item, Reason) else lazy_batch(item, self._rules.span)
        return None if isinstance(batch, Reason | RejectedBatch) else batch.first_timestamp

    def _l1_rules(self, first_time: int | None) -> tuple[L1Rules, int]:
        """Return the rules that a channel is read by, and the time of the L1 block that they belong to."""
        time = self._rules.l1_time if self._rules.l1_time is not None else first_time
        if time is None:
            return _WIDEST.l1(0), 0
        return self._schedule.l1(time), time

    def _one(
        self, position: Position, decode: Callable[[], LazyBatch | RejectedBatch | Reason]
    ) -> Iterator[DecoderOutput]:
        batch = decode()
        time = None if isinstance(batch, Reason | RejectedBatch) else batch.first_timestamp
        rules = self._l1_rules(time if self._rules.schedule is not None else None)
        yield from self._checked(position, batch, *rules)

    def _checked(
        self,
        position: Position,
        batch: LazyBatch | RejectedBatch | Reason,
        rules: L1Rules,
        time: int,
        channel_bytes: int | None = None,
    ) -> Iterator[DecoderOutput]:
        if isinstance(batch, Reason):
            yield _failure(position, DropEffect.ENDED, batch)
            return
        rejection = self._rejection(batch, rules, time)
        if rejection is not None:
            yield _failure(position, DropEffect.DROPPED, rejection)
        elif not isinstance(batch, RejectedBatch):
            yield FoundBatch(position, batch, channel_bytes)
            if self._rules.schedule is not None:
                yield from self._transaction_failures(position, batch)

    def _rejection(self, batch: LazyBatch | RejectedBatch, rules: L1Rules, time: int) -> Reason | None:
        if isinstance(batch, LazySingularBatch):
            return None
        read = batch.span if isinstance(batch, LazySpanBatch) else batch
        return read_rejection(read, rules, time)

    def _transaction_failures(self, position: Position, batch: LazyBatch) -> Iterator[DecodeFailure]:
        for block in batch.blocks():
            reason = transaction_rejection(self._schedule, block.transactions, block.timestamp)
            if reason is not None:
                text = f"its block of time {block.timestamp} would be dropped: {_with_rule(reason)}"
                yield DecodeFailure(position, reason.kind.rule, text)
                return


READERS: dict[str, Callable[[Decoder, str, bytes], Iterator[DecoderOutput]]] = {
    "transaction": Decoder._transaction,
    "blob": Decoder._blob,
    "data": Decoder._data,
    "frames": Decoder._data,
    "channel": Decoder._body,
    "batch": Decoder._batch,
    "raw-span": Decoder._raw_span,
}
"""Readers by the kind of file."""


def _position_of(channel: bytes, open_channel: _OpenChannel) -> Position:
    """Return the beginning of a channel's decompressed bytes."""
    return Position(tuple(open_channel.files), 0, channel, True, tuple(open_channel.transactions))


def _failure(position: Position, effect: DropEffect, reason: Reason) -> DecodeFailure:
    return DecodeFailure(position, reason.kind.rule, str(Dropped(effect, reason, None)))


def _with_rule(reason: Reason) -> str:
    return f"{reason} [{reason.kind.rule}]"


def _offset_of(reason: Reason) -> int:
    offset = reason.values.get("offset", 0)
    return offset if isinstance(offset, int) else 0


def _encoded_size(item: bytes) -> int:
    """Return the size of a byte string in the stream, its head included."""
    size = len(item)
    if size < 56:
        return 1 if size == 1 and item[0] < 0x80 else 1 + size
    return 1 + (size.bit_length() + 7) // 8 + size
