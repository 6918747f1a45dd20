"""From files to batches without L1: blobs, frames, channel bodies or batches as they are, read by the deriver's own
parsers. Nothing is judged but by rules of reading; what does not decode is told with its place and its rule.

Rules that depend on time are taken in their widest form unless fork times are given. Then the time of the L1 block in
which a channel ended decides; where it is not given, the first timestamp of the channel's first batch stands for it."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from rollup_node.node.inspect.outline import Outline, SingularOutline, SpanOutline, outline, raw_span_outline
from rollup_node.stages.derivation.codec.batches import RefusedBatch
from rollup_node.stages.derivation.codec.channel_body import open_body
from rollup_node.stages.derivation.codec.frames import Frame, parse_frames
from rollup_node.stages.derivation.codec.rlp_stream import read_items
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.pipeline.batch_checks import transaction_refusal
from rollup_node.stages.derivation.pipeline.channel_bank import ChannelFrames
from rollup_node.stages.derivation.pipeline.channel_reader import reading_refusal
from rollup_node.stages.derivation.reasons.reasons import Dropped, Effect, Reason, Why
from rollup_node.stages.protocol.blob_codec import BlobDataError, decode_blob
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.stages.protocol.forks.table import FORK_NAMES

MAX_HELD = 32_000_000
"""Bytes of frames that wait for the rest of their channels; with more the oldest channel is dropped."""

_FRAME_FIELDS = 23
_WIDEST = ForkSchedule(dict.fromkeys(FORK_NAMES, 0), 2, 300, 600)


class DecodingRules(msgspec.Struct, frozen=True):
    """The chain's constants; its forks, None for rules in their widest form; the time of the L1 block at which
    everything is read, None for the times of the batches."""

    span: SpanRules
    schedule: ForkSchedule | None = None
    l1_time: int | None = None


class Place(NamedTuple):
    """Where something stands: a byte of a file, or of the decompressed bytes of a channel that files hold together."""

    files: tuple[str, ...]
    offset: int = 0
    channel: bytes | None = None
    decompressed: bool = False

    def __str__(self) -> str:
        more = f" and {len(self.files) - 3} more" if len(self.files) > 3 else ""
        channel = "" if self.channel is None else f"channel {self.channel.hex()}, "
        offset = f"decompressed offset {self.offset}" if self.decompressed else f"offset {self.offset}"
        return f"{', '.join(self.files[:3])}{more}: {channel}{offset}"


class Trouble(NamedTuple):
    """Something that was not decoded, or would be refused: where, by which rule, and the text that names the rule."""

    place: Place
    rule: str
    text: str


class Found(NamedTuple):
    """A batch, to be read before the next outcome is asked for."""

    place: Place
    batch: Outline


Outcome = Found | Trouble


class _Waiting:
    """A channel that is not complete, the files its frames come from, and what the frames count."""

    def __init__(self) -> None:
        self.frames = ChannelFrames(0)
        self.files: dict[str, None] = {}
        self.size = 0


class Decoder:
    """Takes files of one kind one after the other."""

    def __init__(self, rules: DecodingRules, kind: str) -> None:
        self._rules = rules
        self._schedule = rules.schedule or _WIDEST
        self._read = READERS[kind]
        self._waiting: OrderedDict[bytes, _Waiting] = OrderedDict()
        self._held = 0

    def read(self, file: str, data: bytes) -> Iterator[Outcome]:
        """The batches that are complete with this file."""
        return self._read(self, file, data)

    def finish(self) -> Iterator[Outcome]:
        """The batches at the beginnings of channels that lack frames."""
        while self._waiting:
            channel, waiting = self._waiting.popitem(last=False)
            count, body = waiting.frames.beginning()
            files = tuple(waiting.files)
            del waiting
            reason = Why.CHANNEL_INCOMPLETE(channel=channel, number=count)
            yield Trouble(Place(files, 0, channel), reason.rule.id, _told(reason))
            if body:
                yield from self._channel(Place(files, 0, channel, True), body)

    # --- kinds of files --------------------------------------------------------------------------------------------

    def _blob(self, file: str, blob: bytes) -> Iterator[Outcome]:
        try:
            data = decode_blob(blob)
        except BlobDataError as error:
            yield Trouble(Place((file,)), error.rule, f"blob ignored: {error}")
            return
        yield from self._data(f"{file} (data of the blob)", data)

    def _data(self, file: str, data: bytes) -> Iterator[Outcome]:
        frames = parse_frames(data)
        if isinstance(frames, Reason):
            yield _trouble(Place((file,), _offset_of(frames)), Effect.IGNORED, frames)
            return
        at = 1
        frames.reverse()
        while frames:
            frame = frames.pop()
            yield from self._frame(Place((file,), at, frame.channel), frame)
            at += _FRAME_FIELDS + len(frame.data)

    def _body(self, file: str, body: bytes) -> Iterator[Outcome]:
        return self._channel(Place((file,), 0, None, True), body)

    def _batch(self, file: str, item: bytes) -> Iterator[Outcome]:
        return self._one(Place((file,)), lambda: outline(item, self._rules.span))

    def _raw_span(self, file: str, data: bytes) -> Iterator[Outcome]:
        return self._one(Place((file,)), lambda: raw_span_outline(data, self._rules.span))

    # --- frames to channels ----------------------------------------------------------------------------------------

    def _frame(self, place: Place, frame: Frame) -> Iterator[Outcome]:
        waiting = self._waiting.get(frame.channel) or self._open(frame.channel)
        waiting.files[place.files[0]] = None
        refusal = waiting.frames.refusal(frame)
        if refusal is not None:
            yield _trouble(place, Effect.IGNORED, refusal)
            return
        waiting.size += frame.size
        self._held += frame.size
        for number in waiting.frames.add(frame):
            reason = Why.BANK_SUPERSEDED(number=number, channel=frame.channel, end=frame.number)
            yield _trouble(place, Effect.DROPPED, reason)
        if waiting.frames.is_ready():
            self._forget(frame.channel)
            files, body = tuple(waiting.files), waiting.frames.beginning()[1]
            del waiting
            yield from self._channel(Place(files, 0, frame.channel, True), body)
        while self._held > MAX_HELD:
            oldest = next(iter(self._waiting))
            reason = Why.BANK_FULL(channel=oldest, size=self._held, limit=MAX_HELD)
            self._forget(oldest)
            yield _trouble(place, Effect.DROPPED, reason)

    def _open(self, channel: bytes) -> _Waiting:
        self._waiting[channel] = _Waiting()
        return self._waiting[channel]

    def _forget(self, channel: bytes) -> None:
        self._held -= self._waiting.pop(channel).size

    # --- channels to batches ---------------------------------------------------------------------------------------

    def _channel(self, place: Place, body: bytes) -> Iterator[Outcome]:
        """The batches of a channel body, and why there are no more."""
        rules, time = self._l1_rules(self._first_time(body))
        reader = open_body(body, rules.max_rlp_bytes_per_channel, rules.brotli)
        if isinstance(reader, Reason):
            yield _trouble(place._replace(decompressed=False), Effect.ENDED, reader)
            return
        offset = 0
        for item in read_items(reader, rules.max_rlp_bytes_per_channel):
            if isinstance(item, Reason):
                if item.why is not Why.STREAM_DONE or not offset:
                    yield _trouble(place._replace(offset=offset), Effect.ENDED, item)
                return
            batch = outline(item, self._rules.span)
            yield from self._judged(place._replace(offset=offset), batch, rules, time)
            if isinstance(batch, Reason):
                return
            offset += _encoded_size(item)

    def _first_time(self, body: bytes) -> int | None:
        """The first timestamp of the first batch, where it matters."""
        if self._rules.schedule is None or self._rules.l1_time is not None:
            return None
        rules = _WIDEST.l1(0)
        reader = open_body(body, rules.max_rlp_bytes_per_channel, rules.brotli)
        if isinstance(reader, Reason):
            return None
        item = next(read_items(reader, rules.max_rlp_bytes_per_channel))
        batch = item if isinstance(item, Reason) else outline(item, self._rules.span)
        return None if isinstance(batch, Reason | RefusedBatch) else batch.first_timestamp

    def _l1_rules(self, first_time: int | None) -> tuple[L1Rules, int]:
        """The rules of reading and the time they are of."""
        time = self._rules.l1_time if self._rules.l1_time is not None else first_time
        if time is None:
            return _WIDEST.l1(0), 0
        return self._schedule.l1(time), time

    def _one(self, place: Place, decode: Callable[[], Outline | RefusedBatch | Reason]) -> Iterator[Outcome]:
        batch = decode()
        time = None if isinstance(batch, Reason | RefusedBatch) else batch.first_timestamp
        rules = self._l1_rules(time if self._rules.schedule is not None else None)
        yield from self._judged(place, batch, *rules)

    def _judged(
        self, place: Place, batch: Outline | RefusedBatch | Reason, rules: L1Rules, time: int
    ) -> Iterator[Outcome]:
        if isinstance(batch, Reason):
            yield _trouble(place, Effect.ENDED, batch)
            return
        refusal = self._refusal(batch, rules, time)
        if refusal is not None:
            yield _trouble(place, Effect.DROPPED, refusal)
        elif not isinstance(batch, RefusedBatch):
            yield Found(place, batch)
            if self._rules.schedule is not None:
                yield from self._refused_transactions(place, batch)

    def _refusal(self, batch: Outline | RefusedBatch, rules: L1Rules, time: int) -> Reason | None:
        if isinstance(batch, SingularOutline):
            return None
        read = batch.span if isinstance(batch, SpanOutline) else batch
        return reading_refusal(read, rules, self._schedule, time)

    def _refused_transactions(self, place: Place, batch: Outline) -> Iterator[Trouble]:
        for block in batch.blocks():
            reason = transaction_refusal(self._schedule, block.transactions, block.timestamp)
            if reason is not None:
                text = f"its block of time {block.timestamp} would be dropped: {_told(reason)}"
                yield Trouble(place, reason.rule.id, text)
                return


READERS: dict[str, Callable[[Decoder, str, bytes], Iterator[Outcome]]] = {
    "blob": Decoder._blob,
    "data": Decoder._data,
    "frames": Decoder._data,
    "channel": Decoder._body,
    "batch": Decoder._batch,
    "raw-span": Decoder._raw_span,
}
"""Kinds of files by name."""


def _trouble(place: Place, effect: Effect, reason: Reason) -> Trouble:
    return Trouble(place, reason.rule.id, str(Dropped(effect, reason, None)))


def _told(reason: Reason) -> str:
    return f"{reason} (rule {reason.rule.id})"


def _offset_of(reason: Reason) -> int:
    offset = reason.values.get("offset", 0)
    return offset if isinstance(offset, int) else 0


def _encoded_size(item: bytes) -> int:
    """The size of a byte string in the stream, its head included."""
    size = len(item)
    if size < 56:
        return 1 if size == 1 and item[0] < 0x80 else 1 + size
    return 1 + (size.bit_length() + 7) // 8 + size
