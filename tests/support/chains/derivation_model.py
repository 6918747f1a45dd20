"""A reference model of derivation, written by the wording of the rules: computes the L2 blocks of the L1 blocks since a
reset, from the start at each call. It has no encodings: batches and frames are plain values."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rollup_node.stages.protocol.types import BlockId, L2BlockRef
from rollup_node.tools.batcher.batches import BatchBlock
from rollup_node.tools.batcher.channels import Frame
from tests.conformance.kit.planning import Planned, l2_hash
from tests.support.chains.derivation_values import (
    EMPTY_AT_ACTIVATION,
    ORDER,
    ModelBlock,
    ModelL1,
    ModelRollup,
    ModelSpan,
)

END = object()


def reset_start(chain: ModelRollup, l1: Sequence[ModelL1], l2: Sequence[Planned]) -> int:
    """Return the number of the L2 block whose L1 origin is read first, with the newest of `l2` as safe head [RS1]."""
    epochs = [block.ref.l1_origin.number for block in l2]
    at = len(l2) - 1
    while at > 0 and epochs[at] > chain.first_l1:
        if epochs[at] + chain.channel_timeout(l1[epochs[at] - chain.first_l1].time) <= epochs[-1]:
            break
        at -= 1
    return at


@dataclass
class _OpenChannel:
    """A channel in the bank."""

    opened: int
    pieces: dict[int, bytes] = field(default_factory=dict)
    end: int | None = None


class DerivationModel:
    """One run over the L1 chain, from `base` on, on top of the safe chain `l2` (which starts at genesis)."""

    def __init__(self, chain: ModelRollup, l1: Sequence[ModelL1], l2: Sequence[Planned], base: int) -> None:
        self.chain, self.l1, self.l2 = chain, l1, list(l2)
        self.block_time, self.window_size = chain.config.block_time, chain.config.seq_window_size
        self.built: list[ModelBlock] = []
        self.origin = l1[base - chain.first_l1]
        self.seen = self.origin
        self.window = [self.origin]
        self.bank: dict[bytes, _OpenChannel] = {}
        self.queue: list[tuple[BatchBlock | ModelSpan, ModelL1]] = []
        self.pending: list[BatchBlock] = []
        self.flushed = False
        self.new = chain.active("holocene", self.origin.time)
        self.source: Iterator[BatchBlock | ModelSpan] = iter(())

    @property
    def safe(self) -> L2BlockRef:
        return self.l2[-1].ref

    @property
    def next_time(self) -> int:
        return self.safe.timestamp + self.block_time

    def run(self) -> str:
        """How it ends: `waits` for more L1 blocks, or `reset`."""
        while True:
            self.source = self._readable_batches()
            ended = "more"
            while ended == "more":
                ended = self._new_stage() if self.new else self._old_stage()
            if ended == "reset":
                return ended
            place = self.origin.number + 1 - self.chain.first_l1
            if place == len(self.l1):
                return "waits"
            if self.l1[place].parent_hash != self.origin.hash:
                return "reset"
            self._cross(self.origin.time, self.l1[place].time)
            self.origin = self.l1[place]

    def _cross(self, old: int, new: int) -> None:
        """Holocene replaces the stages if it is the first fork of this L1 step [PS3, PS4]."""
        crossed = [f for f in ORDER if not self.chain.active(f, old) and self.chain.active(f, new)]
        if crossed[:1] == ["holocene"]:
            self.new = True
            self.bank, self.queue, self.pending = {}, [], []

    # --- from L1 blocks to batches ------------------------------------------------------------------------------

    def _batcher(self) -> bytes:
        """Return the batcher by the updates up to the origin [T5]."""
        batcher = self.chain.config.genesis.system_config.batcher
        for block in self.l1[: self.origin.number - self.chain.first_l1 + 1]:
            batcher = block.batcher or batcher
        return batcher

    def _readable_batches(self) -> Iterator[BatchBlock | ModelSpan]:
        """Yield the batches that are read in this L1 block."""
        if self.new:
            self.bank = {name: item for name, item in self.bank.items() if not self._timed_out(item)}
        for sender, frames in self.origin.items:
            if sender != self._batcher() or frames is None:
                continue
            if self.chain.active("holocene", self.origin.time):
                frames = pruned(frames)
            for frame in frames:
                if self.new:
                    yield from self._assemble(frame)
                else:
                    yield from self._ready_in_bank()
                    self._ingest(frame)
        if not self.new:
            yield from self._ready_in_bank()

    def _timed_out(self, channel: _OpenChannel) -> bool:
        return channel.opened + self.chain.channel_timeout(self.origin.time) < self.origin.number

    def _ready_in_bank(self) -> Iterator[BatchBlock | ModelSpan]:
        """Yield the batches of the channels that are ready in the bank [CB1 to CB6]."""
        while self.bank:
            oldest = next(iter(self.bank))
            if self._timed_out(self.bank[oldest]):
                del self.bank[oldest]
                continue
            names = list(self.bank) if self.chain.active("canyon", self.origin.time) else [oldest]
            ready = [name for name in names if self._is_ready(self.bank[name])]
            if not ready:
                return
            channel = self.bank.pop(ready[0])
            yield from self._read(b"".join(channel.pieces[number] for number in sorted(channel.pieces)))

    def _is_ready(self, channel: _OpenChannel) -> bool:
        complete = channel.end is not None and sorted(channel.pieces) == list(range(channel.end + 1))
        return complete and not self._timed_out(channel)

    def _ingest(self, frame: Frame) -> None:
        """Add a frame to the bank [CB7 to CB10, CB14]."""
        channel = self.bank.setdefault(frame.channel_id, _OpenChannel(self.origin.number))
        closed = channel.end is not None
        if self._timed_out(channel) or (frame.is_last and closed) or frame.number in channel.pieces:
            return
        if channel.end is not None and frame.number >= channel.end:
            return
        channel.pieces[frame.number] = frame.data
        if frame.is_last:
            channel.end = frame.number
            channel.pieces = {number: piece for number, piece in channel.pieces.items() if number <= frame.number}

    def _assemble(self, frame: Frame) -> Iterator[BatchBlock | ModelSpan]:
        """Add a frame to the staging channel; the batches of a completed channel [CA3 to CA7]."""
        if frame.number == 0:
            self.bank = {frame.channel_id: _OpenChannel(self.origin.number)}
        channel = self.bank.get(frame.channel_id)
        if channel is None or frame.number != len(channel.pieces):
            return
        channel.pieces[frame.number] = frame.data
        if frame.is_last:
            self.bank = {}
            yield from self._read(b"".join(channel.pieces.values()))

    def _read(self, body: bytes) -> Iterator[BatchBlock | ModelSpan]:
        """Yield the batches of a channel that may be read here [RD3, BE5, BE6]."""
        channel = self.chain.channels[body]
        if channel.brotli and not self.chain.active("fjord", self.origin.time):
            return
        for batch in channel.batches:
            early = not self.chain.active("delta", self.origin.time)
            if isinstance(batch, ModelSpan) and (early or batch.filled):
                continue
            self.flushed = False
            yield batch
            if self.flushed:
                return

    def _flush(self) -> None:
        """Drop the pending span, the channel being read and the staging channel [E5b]."""
        self.pending, self.flushed = [], True
        if self.new:
            self.bank = {}

    # --- the stages --------------------------------------------------------------------------------------

    def _update_origins(self) -> bool:
        """Update the L1 window; whether the L1 block is behind the parent's origin [E2, E3]."""
        behind = self.origin.number < self.safe.l1_origin.number
        if self.origin is not self.seen:
            self.seen = self.origin
            self.window = [] if behind else [*self.window, self.origin]
        if any(item.number == self.safe.l1_origin.number for item in self.window):
            self.window = [item for item in self.window if item.number >= self.safe.l1_origin.number]
        return behind

    def _does_not_fit(self) -> bool:
        """Whether the parent's origin does not fit the window [E6]."""
        first = self.window[0]
        return (self.safe.l1_origin.number, self.safe.l1_origin.hash) != (first.number, first.hash) and (
            self.safe.l1_origin.number != first.number - 1
        )

    def _next_pending(self) -> BatchBlock | None:
        """Return the next block of the pending span, if its time is the next one [X6]."""
        if self.pending and self.pending[0].timestamp == self.next_time:
            return self.pending.pop(0)
        self.pending = []
        return None

    def _old_stage(self) -> str:
        """One step of the batch queue [BQ1 to BQ10]."""
        pending = self._next_pending()
        if pending is not None:
            return self._build(pending, not self.pending)
        behind = self._update_origins()
        batch = next(self.source, END)
        if behind:
            return "eof" if batch is END else "more"
        if isinstance(batch, BatchBlock | ModelSpan) and self._check(batch, self.origin) != "drop":
            self.queue.append((batch, self.origin))
        if self._does_not_fit():
            return "reset"
        kept: list[tuple[BatchBlock | ModelSpan, ModelL1]] = []
        while self.queue:
            entry = self.queue.pop(0)
            verdict = self._check(*entry)
            if verdict == "accept":
                self.queue = kept + self.queue
                return self._take(entry[0])
            if verdict == "undecided":
                self.queue = [*kept, entry, *self.queue]
                return "eof" if batch is END else "more"
            if verdict == "future":
                kept.append(entry)
        self.queue = kept
        ended = self._expired(batch is END)
        return "more" if ended == "eof" and batch is not END else ended

    def _take(self, batch: BatchBlock | ModelSpan) -> str:
        """Return an accepted batch, block by block [BQ10]."""
        if isinstance(batch, BatchBlock):
            return self._build(batch, True)
        result = self._extract(batch)
        assert result, "an accepted span has no new block"
        self.pending = result[1:]
        return self._build(result[0], not self.pending)

    def _new_stage(self) -> str:
        """One step of the batch stage [BS1 to BS9]."""
        if self._update_origins() or self.safe.l1_origin.number == self.origin.number:
            return "eof" if next(self.source, END) is END else "more"
        assert len(self.window) >= 2
        if self._does_not_fit():
            return "reset"
        batch: object = self._next_pending() or next(self.source, END)
        if batch is END:
            return self._expired(True)
        if isinstance(batch, ModelSpan):
            verdict = self._prefix(batch, self.origin)
            if verdict == "accept":
                verdict = self._overlap(batch)
            result = self._extract(batch) if verdict == "accept" else None
            if not result:
                if verdict in ("drop", "accept"):
                    self._flush()
                return "more"
            self.pending = result[1:]
            batch = result[0]
        assert isinstance(batch, BatchBlock)
        verdict = self._single(batch, self.origin)
        if verdict == "accept":
            return self._build(batch, True)
        if verdict == "drop":
            self._flush()
        return "more"

    def _expired(self, out_of_data: bool) -> str:
        """Return an empty batch, if one is due [E7]."""
        epoch = self.window[0]
        expiry = epoch.number + self.window_size
        if not (expiry < self.origin.number or (expiry == self.origin.number and out_of_data)):
            return "eof"
        if len(self.window) < 2:
            return "eof"
        if self.next_time < self.window[1].time or epoch.number == self.safe.l1_origin.number + 1:
            return self._build(BatchBlock(self.safe.hash, self.next_time, BlockId(epoch.number, epoch.hash), ()), True)
        self.window.pop(0)
        return "eof"

    # --- the validity of batches ------------------------------------------------------------------------

    def _check(self, batch: BatchBlock | ModelSpan, inclusion: ModelL1) -> str:
        return self._single(batch, inclusion) if isinstance(batch, BatchBlock) else self._span(batch, inclusion)

    def _strict(self, inclusion: ModelL1) -> bool:
        return self.chain.active("holocene", inclusion.time)

    def _known(self, number: int) -> ModelL1 | None:
        return next((item for item in self.window if item.number == number), None)

    def _single(self, batch: BatchBlock, inclusion: ModelL1) -> str:
        """Return the checks of a singular batch [V1 to V15]. A parent hash without bytes stands for any parent [X4]."""
        if not self.window:
            return "undecided"
        if batch.timestamp > self.next_time:
            return "drop" if self._strict(inclusion) else "future"
        if batch.timestamp < self.next_time:
            return "past" if self._strict(inclusion) else "drop"
        if batch.parent_hash not in (b"", self.safe.hash) or batch.epoch.number + self.window_size < inclusion.number:
            return "drop"
        if not 0 <= batch.epoch.number - self.window[0].number <= 1:
            return "drop"
        origin = self._known(batch.epoch.number)
        if origin is None:
            return "undecided"
        if batch.epoch.hash not in (b"", origin.hash) or batch.timestamp < origin.time:
            return "drop"
        if batch.transactions and any(fork in EMPTY_AT_ACTIVATION for fork in self.chain.activating(batch.timestamp)):
            return "drop"
        verdict = self._drift(batch.timestamp, batch.transactions, origin, origin is not self.window[0])
        return verdict or (
            "drop" if any(self._rejected(tx, batch.timestamp) for tx in batch.transactions) else "accept"
        )

    def _drift(self, time: int, txs: tuple[bytes, ...], origin: ModelL1, advanced: bool) -> str | None:
        """Return the drift check [V13, FU5]."""
        if time <= origin.time + self.chain.max_drift(origin.time):
            return None
        if txs:
            return "drop"
        if advanced:
            return None
        following = self._known(origin.number + 1)
        if following is None:
            return "undecided"
        return "drop" if time >= following.time else None

    def _rejected(self, tx: bytes, time: int) -> bool:
        """Return the check of transaction types [V14, FU6]."""
        if tx[:1] in (b"", b"\x7e"):
            return True
        fork = {4: "isthmus", 0x7D: "lagoon"}.get(tx[0])
        return fork is not None and not self.chain.active(fork, time)

    def _time(self, span: ModelSpan, place: int) -> int:
        return span.timestamp + place * self.block_time

    def _parent(self, span: ModelSpan) -> L2BlockRef | None:
        """Return the parent of a span [PX6]."""
        if span.timestamp >= self.next_time:
            return self.safe
        number = self.safe.number - (self.safe.timestamp - span.timestamp) // self.block_time - 1
        return self.l2[number].ref if number >= 0 else None

    def _prefix(self, span: ModelSpan, inclusion: ModelL1) -> str:
        """Return the prefix checks of a span [PX1 to PX12]."""
        if not self.window:
            return "undecided"
        start, end = span.epochs[0], span.epochs[-1]
        origin: ModelL1 | None = self.window[0]
        if start == self.window[0].number + 1:
            origin = self._known(start)
        if origin is None:
            return "undecided"
        if not self.chain.active("delta", origin.time):
            return "drop"
        if span.timestamp > self.next_time:
            return "drop" if self._strict(inclusion) else "future"
        if self._time(span, len(span.epochs) - 1) < self.next_time:
            return "past" if self._strict(inclusion) else "drop"
        overlaps = span.timestamp < self.next_time
        if overlaps and (
            span.timestamp > self.safe.timestamp or (self.safe.timestamp - span.timestamp) % self.block_time
        ):
            return "drop"
        parent = self._parent(span)
        if parent is None:
            return "undecided"
        if span.parent_check != parent.hash[:20] or start + self.window_size < inclusion.number:
            return "drop"
        if start > parent.l1_origin.number + 1:
            return "drop"
        last = self._known(end)
        if last is None:
            return "undecided"
        return "drop" if span.origin_check != last.hash[:20] or start < parent.l1_origin.number else "accept"

    def _span(self, span: ModelSpan, inclusion: ModelL1) -> str:
        """Return the full check of a span [FU1 to FU8]."""
        verdict = self._prefix(span, inclusion)
        parent = self._parent(span)
        if verdict != "accept" or parent is None:
            return verdict
        for place, (epoch, txs) in enumerate(zip(span.epochs, span.transactions, strict=True)):
            time = self._time(span, place)
            if time <= self.safe.timestamp:
                continue
            origin = self._known(epoch)
            if epoch < self.safe.l1_origin.number or origin is None or time < origin.time:
                return "drop"
            advanced = epoch > span.epochs[place - 1] if place else epoch == parent.l1_origin.number + 1
            late = self._drift(time, txs, origin, advanced)
            if late is not None:
                return late
            if any(self._rejected(tx, time) for tx in txs):
                return "drop"
        return self._overlap(span)

    def _overlap(self, span: ModelSpan) -> str:
        """Return the comparison of an overlap [FU7, N1]."""
        parent = self._parent(span)
        assert parent is not None
        for place, block in enumerate(self.l2[parent.number + 1 :]):
            if (block.transactions, block.ref.l1_origin.number) != (span.transactions[place], span.epochs[place]):
                return "drop"
        return "accept"

    def _extract(self, span: ModelSpan) -> list[BatchBlock] | None:
        """Return the blocks of a span after the safe head [X1 to X4]."""
        result: list[BatchBlock] = []
        for place, (epoch, txs) in enumerate(zip(span.epochs, span.transactions, strict=True)):
            if self._time(span, place) > self.safe.timestamp:
                if epoch < self.safe.l1_origin.number or self._known(epoch) is None:
                    return None
                result.append(BatchBlock(b"", self._time(span, place), BlockId(epoch, b""), txs))
        return result

    # --- the block, and the engine's result for it -----------------------------------------------------------------

    def _build(self, batch: BatchBlock, concluding: bool) -> str:
        """Build a block, or replaces it by its deposits, or rejects it [AQ2, AQ3, BQ13]."""
        safe, epoch = self.safe, self.l1[batch.epoch.number - self.chain.first_l1]
        starts = epoch.number != safe.l1_origin.number
        if (starts and epoch.parent_hash != safe.l1_origin.hash) or (not starts and epoch.hash != safe.l1_origin.hash):
            return "reset"
        if batch.timestamp < epoch.time:
            return "reset"
        users = batch.transactions
        if self.chain.is_invalid(users):
            if not self.chain.active("holocene", self.origin.time):
                while self.built and not self.built[-1].concluding:
                    self.built.pop()
                    self.l2.pop()
                return "more"
            users = ()
            self._flush()
        origin = BlockId(epoch.number, epoch.hash)
        key = l2_hash(safe.hash, batch.timestamp, origin, users)
        sequence = 0 if starts else safe.sequence_number + 1
        block = Planned(L2BlockRef(key, safe.number + 1, safe.hash, batch.timestamp, origin, sequence), users)
        gas_limit = self.chain.config.genesis.system_config.gas_limit
        for item in self.l1[: epoch.number - self.chain.first_l1 + 1]:
            gas_limit = item.gas_limit or gas_limit
        self.built.append(ModelBlock(block, self.origin.number, concluding, gas_limit, epoch.deposits if starts else 0))
        self.l2.append(block)
        return "more"


def pruned(frames: Sequence[Frame]) -> tuple[Frame, ...]:
    """Return the frames that the frame queue keeps [Q3]."""
    result, at = list(frames), 0
    while at + 1 < len(result):
        current, following = result[at], result[at + 1]
        same = current.channel_id == following.channel_id
        if same and (current.is_last or following.number != (current.number + 1) % 65536):
            del result[at + 1]
        elif same or following.number == 0:
            if same or current.is_last:
                at += 1
            else:
                del result[at]
                at = max(0, at - 1)
        else:
            del result[at + 1]
    return tuple(result)
