"""Watches what batches say while they are not derived, or do not come at all.

Nothing fails without those of the chain's batcher, or when they follow another upgrade. While derivation waits before
a fork's activation block, those ahead on L1 say which sequencer's block is the chain's [UPG24]."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator

import msgspec

from rollup_node.stages.derivation.codec.batches import DecodedBatch, RejectedBatch, SingularBatch
from rollup_node.stages.derivation.reasons import batches as reasons
from rollup_node.stages.derivation.reasons.l1 import SenderNotBatcher
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.derivation.tasks import DecodedChannel
from rollup_node.stages.io.log.lasting_conditions import LastingCondition
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.base import Message, Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.engine import AttributesReady, BatchParent
from rollup_node.stages.messages.log_fields import FieldValue
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.types import BlockId, L1BlockRef, L2BlockRef
from rollup_node.stages.protocol.upgrade_transactions import selectable_bundles

LEAST_BLOCKS = 10
WINDOW_PART = 10
"""Without a batch for this part of the sequencing window, but at least LEAST_BLOCKS L1 blocks, it is said."""
UNREADY_PART = 2
"""Without one for this part the node is not ready."""

_OTHER_PARENT = (reasons.ParentHashMismatch, reasons.SpanParentMismatch)
SHOWN = 3
MAX_SENDERS = 16
INTERVALS = 32


class BatchWatch:
    """Counts the L1 blocks since the last batch that became a block, and what came instead [LOG16]."""

    def __init__(self, window: int, log: Logger) -> None:
        self._window = window
        self._limit = max(LEAST_BLOCKS, window // WINDOW_PART)
        self._unready = max(LEAST_BLOCKS, window // UNREADY_PART)
        self._condition = LastingCondition(log, counts=False)
        self._since: int | None = None
        self._last: L1BlockRef | None = None
        self._intervals: deque[int] = deque(maxlen=INTERVALS)
        self._epoch = self._blocks = 0
        self._senders: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()

    @property
    def problem(self) -> Problem | None:
        """The health problem, if there is one."""
        if self._blocks < self._unready:
            return None
        text = f"no batch was accepted in the last {self._blocks} L1 blocks, {self._left()}"
        return Problem(Code.NO_BATCHES, "", text)

    @property
    def interval(self) -> int | None:
        """The longest of the last INTERVALS times, in seconds, between L1 blocks with batches; None before two."""
        return max(self._intervals, default=None)

    def restart(self, epoch: BlockId) -> None:
        """Begin again from a safe head with this L1 origin."""
        self._epoch = self._since = epoch.number
        self._blocks, self._last = 0, None

    def at_block(self, block: L1BlockRef) -> None:
        if self._since is None:
            return
        self._blocks = block.number - self._since
        if self._blocks >= self._limit:
            others = ", ".join(f"{sender} ({count})" for sender, count in self._senders.most_common(SHOWN))
            dropped = ", ".join(f"{label} ({count})" for label, count in self._dropped.most_common(SHOWN))
            fields: dict[str, FieldValue] = {
                "l1_block": block,
                "l1_blocks": self._blocks,
                "window_left": self._window_left(),
            }
            fields |= {"other_senders": others} if others else {}
            fields |= {"dropped": dropped} if dropped else {}
            self._condition.report(Code.NO_BATCHES, "no batch has been accepted for long", **fields)

    def dropped(self, dropped: Dropped) -> None:
        """Note that inbox data was not used; after a start, batches before the safe head are read again."""
        reason = dropped.reason
        if reason.kind in (reasons.TimestampPast, reasons.SpanPast):
            if dropped.origin is not None and self._since is not None:
                self._since = max(self._since, dropped.origin.number)
        elif reason.kind is not SenderNotBatcher:
            self._dropped[dropped.label] += 1
        elif (sender := str(reason.values["sender"])) in self._senders or len(self._senders) < MAX_SENDERS:
            self._senders[sender] += 1

    def derived(self, epoch: BlockId, derived_from: L1BlockRef) -> bool:
        """Return a block with this L1 origin has become safe; whether it is one of a batch.

        One that only the end of the sequencing window made, which is empty, is no sign of a batch [E8]."""
        self._epoch = epoch.number
        if derived_from.number >= epoch.number + self._window:
            return False
        self._since, self._blocks = derived_from.number, 0
        if self._last is not None and derived_from.number > self._last.number:
            self._intervals.append(derived_from.timestamp - self._last.timestamp)
        self._last = derived_from
        self._senders.clear()
        self._dropped.clear()
        self._condition.end("batches are accepted again", l1_block=derived_from)
        return True

    def _window_left(self) -> int:
        assert self._since is not None
        return max(0, self._epoch + self._window - (self._since + self._blocks))

    def _left(self) -> str:
        left = self._window_left()
        return (
            f"{left} of the sequencing window are left" if left else "the sequencing window is over: blocks are empty"
        )


class UpgradeWatch:
    """Whether batches in the first day after the activation of a fork name another parent, until one is accepted.

    Confirmed or not, the bundle may be wrong: an operator may have given the wrong file."""

    def __init__(self, rollup: RollupConfig, log: Logger) -> None:
        self._bundles = selectable_bundles(rollup)
        self._condition = LastingCondition(log, counts=False)
        self.problem: Problem | None = None

    def dropped(self, dropped: Dropped, safe: L2BlockRef) -> None:
        """Something that came to the inbox was not used, on this safe head."""
        if not self._bundles or dropped.reason.kind not in _OTHER_PARENT:
            return
        for bundle in self._bundles:
            if safe.timestamp >= bundle.time and not bundle.is_proven(safe.timestamp):
                text = f"batches after the activation of {bundle.fork} name another parent than block {safe.number}"
                wrong = f"the bundle {bundle.bundle.sha256[:8]} ({bundle.bundle.origin}) is probably not the chain's"
                back = "or the engine has the block of a wrong one, final by now: set it back to before the fork"
                self.problem = Problem(Code.BUNDLE_UNCONFIRMED, "", f"{text}: {wrong}, {back}")
                self._condition.report(Code.BUNDLE_UNCONFIRMED, text, safe=safe, bundle=bundle.bundle.sha256)

    def derived(self) -> None:
        """Note a block of a batch that has become safe."""
        if self.problem is not None:
            self.problem = None
            self._condition.end("batches are accepted again")


MAX_CHANNELS = 256
MAX_PARENTS = 64
MANY_REPEATS = 5
"""How often the attributes of an activation block are sent before the engine process may be taken to wait."""
WAITING_WINDOW = 1024
"""L1 blocks that are read ahead then: batchers of quiet chains post every few hours."""


class BatchParents:
    """The channel that derivation reads and those that are complete behind it, by the keys of their decoding tasks.

    Channels before it count no more: after an L1 reorg they are those of blocks that the sequencer has replaced.
    `decoded` gives the result of a task, None where it is not kept."""

    def __init__(self, rollup: RollupConfig, decoded: Callable[[bytes], DecodedChannel | None]) -> None:
        self._rollup, self._decoded = rollup, decoded
        self._keys: deque[bytes] = deque(maxlen=MAX_CHANNELS)
        self._reads = False
        self._sent: tuple[int, int] = (0, 0)

    def restart(self) -> None:
        """Forget all channels: derivation starts again, and L1 may be another."""
        self._keys.clear()
        self._reads, self._sent = False, (0, 0)

    def add(self, key: bytes) -> None:
        """Add a complete channel behind the others."""
        if key not in self._keys:
            self._keys.append(key)

    def read(self, key: bytes) -> None:
        """Drop the channels up to this one, which derivation reads."""
        if key in self._keys:
            while self._keys[0] != key:
                self._keys.popleft()
        else:
            if self._reads:
                self._keys.popleft()
            self._keys.appendleft(key)
        self._reads = True

    def waits(self, derived: AttributesReady | None) -> bool:
        """Whether these attributes are of an activation block, and have been unprocessed for long."""
        return derived is not None and self._sent[0] == derived.sequence and self._sent[1] >= MANY_REPEATS

    def attach(self, messages: Iterable[Message]) -> list[Message]:
        """Return the messages; attributes with upgrade transactions get what batches name from that block on."""
        return [self._attached(message) if isinstance(message, AttributesReady) else message for message in messages]

    def _attached(self, derived: AttributesReady) -> AttributesReady:
        activations = self._rollup.schedule().activations(derived.attributes.timestamp)
        if all(activation.bundle is None for activation in activations):
            return derived
        sequence, times = self._sent
        self._sent = derived.sequence, times + 1 if sequence == derived.sequence else 1
        first = derived.parent.number + 1
        named = sorted({parent for parent in self._parents() if parent.number >= first})
        return msgspec.structs.replace(derived, parents=tuple(named[:MAX_PARENTS]))

    def _parents(self) -> Iterator[BatchParent]:
        for key in self._keys:
            result = self._decoded(key)
            for batch in () if result is None else result.batches:
                if (parent := self._parent(batch)) is not None:
                    yield parent

    def _parent(self, batch: DecodedBatch) -> BatchParent | None:
        if isinstance(batch, RejectedBatch):
            return None
        if isinstance(batch, SingularBatch):
            time, named = batch.timestamp, batch.parent_hash
        else:
            time, named = batch.first_timestamp, batch.parent_check
        since_genesis = time - self._rollup.genesis.l2_time
        if since_genesis <= 0 or since_genesis % self._rollup.block_time:
            return None
        return BatchParent(self._rollup.block_number_at(time) - 1, named)
