"""Attributes queued behind the current job, and results not yet acknowledged.

The first attributes of a run have a parent that the engine has. Those behind were derived ahead: each counts only if
the block before was accepted with the number, time, L1 origin and system config that it was derived on [ENG40].
Whatever else becomes of a block cancels the attributes behind it; derivation sends what it derives instead."""

from collections import deque

import msgspec

from rollup_node.stages.messages.base import Message
from rollup_node.stages.messages.engine import AttributesAhead, AttributesOutcome, AttributesReady, AttributesResult
from rollup_node.stages.protocol.config import SystemConfig
from rollup_node.stages.protocol.types import ZERO_HASH, Hash, L2BlockRef

MAX_AHEAD = 64
MAX_UNREPORTED = 8
"""Accepted blocks whose results derivation gets in one message while more attributes wait."""


class AttributesReceiver:
    """`offered` are on a known parent, `ahead` follow in sequence; `reported` is the last result sent."""

    def __init__(self) -> None:
        self.offered: AttributesReady | None = None
        self.ahead: deque[AttributesReady] = deque()
        self.reported = 0
        self._accepted: deque[tuple[int, Hash]] = deque(maxlen=2 * MAX_AHEAD)

    def clear(self) -> None:
        """Forget all: a new start, with which sequences begin again."""
        self.offered, self.reported = None, 0
        self.ahead.clear()
        self._accepted.clear()

    def add(self, derived: AttributesReady, newest: int | None) -> None:
        """Take attributes of derivation.

        `newest` is the sequence of the current job or of the last accepted block, None after any other end.
        Attributes ahead that leave a gap, or are known, are ignored."""
        if derived.parent_config is None:
            self.offered = derived
            return
        if self.offered is not None and (newest is None or self.offered.sequence > newest):
            newest = self.offered.sequence
        if self.ahead:
            newest = self.ahead[-1].sequence
        if newest is not None and derived.sequence == newest + 1 and len(self.ahead) < MAX_AHEAD:
            self.ahead.append(derived)

    def following(self, sequence: int, block: L2BlockRef, config: SystemConfig) -> AttributesReady | None:
        """Return the attributes after number `sequence`, now with their parent; None if none wait.

        `block` with this system config was made of the attributes before. Attributes that were derived on another
        block are dropped, and all behind them."""
        while self.ahead and self.ahead[0].sequence <= sequence:
            self.ahead.popleft()
        if not self.ahead:
            return None
        first = self.ahead[0]
        predicted = msgspec.structs.replace(block, hash=ZERO_HASH, parent_hash=ZERO_HASH)
        if first.sequence == sequence + 1 and first.parent == predicted and first.parent_config == config:
            return msgspec.structs.replace(first, parent=block, parent_config=None)
        self.ahead.clear()
        return None

    def accept(self, sequence: int, block: Hash) -> None:
        """Note that the block of these attributes is in the chain."""
        self._accepted.append((sequence, block))

    def repeat_from(self, sequence: int) -> None:
        """Note that derivation has no result of these attributes."""
        self.reported = min(self.reported, sequence - 1)

    def take_accepted(self, last: int) -> tuple[Hash, ...]:
        """Return the accepted blocks before number `last` whose results were not sent; they count as sent."""
        result = tuple(block for sequence, block in self._accepted if self.reported < sequence < last)
        self.reported = last
        return result


REPEAT_SECONDS = 0.5
MAX_BYTES = 4 << 20
"""Bytes of transactions in the attributes that are derived ahead."""


class AttributesSender:
    """`current` are the attributes that the deriver waits for.

    Behind them up to `most` were derived ahead, at least half as many while the span lasts. Answers wait until the
    deriver has given their attributes again. Each sequence is used once within a reset. Times are seconds of a
    steady clock."""

    def __init__(self, most: int) -> None:
        self.current: AttributesReady | None = None
        self._most, self._reset, self._sequence = most, 0, 0
        self._ahead: deque[AttributesReady] = deque()
        self._unsent: list[AttributesReady] = []
        self._answers: deque[AttributesResult] = deque()
        self._bytes = 0
        self._sent_at = self._ahead_at = 0.0

    def restart(self, reset: int) -> None:
        """Forget all attributes for a new start."""
        self.current, self._reset, self._sequence, self._sent_at = None, reset, 0, 0.0
        self._answers.clear()
        self.cancel_ahead()

    def cancel_ahead(self) -> None:
        """Forget what was derived ahead."""
        self._ahead.clear()
        self._unsent.clear()
        self._bytes = 0

    def derived(self, output: AttributesReady, now: float) -> None:
        """Take the attributes that the deriver waits for; the engine process has those derived ahead already."""
        if self._ahead:
            ahead = self._ahead.popleft()
            self._bytes -= _bytes(ahead)
            if msgspec.structs.replace(ahead, parent=output.parent, parent_config=None) == self._of(
                output, ahead.sequence
            ):
                self.current, self._sent_at = self._of(output, ahead.sequence), now
                return
            self._answers.clear()
            self.cancel_ahead()
        self._sequence += 1
        self.current, self._sent_at = self._of(output, self._sequence), 0.0

    def add(self, output: AttributesReady) -> None:
        """Attributes derived ahead of all others."""
        self._sequence += 1
        ahead = self._of(output, self._sequence)
        self._ahead.append(ahead)
        self._unsent.append(ahead)
        self._bytes += _bytes(ahead)

    def _of(self, output: AttributesReady, sequence: int) -> AttributesReady:
        return msgspec.structs.replace(output, reset=self._reset, sequence=sequence)

    @property
    def is_low(self) -> bool:
        """Whether more attributes are to be derived ahead."""
        return self.current is not None and not self._answers and len(self._ahead) <= self._most // 2

    @property
    def has_room(self) -> bool:
        return len(self._ahead) < self._most and self._bytes < MAX_BYTES

    def due(self, now: float) -> list[Message]:
        messages: list[Message] = []
        if self.current is not None and now - self._sent_at >= REPEAT_SECONDS:
            self._sent_at = now
            messages.append(self.current)
        if self._unsent:
            messages.append(AttributesAhead(tuple(self._unsent)))
            self._unsent.clear()
            self._ahead_at = now
        return messages

    def take(self, result: AttributesResult, now: float) -> bool:
        """Take the outcome of attributes and of the accepted ones right before.

        Whether those derived ahead behind them are lost, as the engine process holds none. An outcome that is known
        or of others is ignored."""
        if self.current is None or result.reset != self._reset:
            return False
        last = self._answers[-1] if self._answers else None
        expected = self.current.sequence if last is None else last.sequence + 1
        first = result.sequence - len(result.accepted)
        if not first <= expected <= result.sequence:
            return False
        known = {derived.sequence: derived for derived in (self.current, *self._ahead)}
        if not all(sequence in known for sequence in range(expected, result.sequence + 1)):
            return False
        parent_hash = self.current.parent.hash if last is None else last.safe_head.hash
        for sequence in range(expected, result.sequence):
            following, key = known[sequence + 1], result.accepted[sequence - first]
            if following.parent_config is None:
                return False
            block = msgspec.structs.replace(following.parent, hash=key, parent_hash=parent_hash)
            source, config = known[sequence].derived_from, following.parent_config
            accepted = AttributesOutcome.ACCEPTED
            self._answers.append(AttributesResult(self._reset, sequence, accepted, block, config, source))
            parent_hash = key
        self._answers.append(msgspec.structs.replace(result, accepted=(), held=0))
        return self._lose(result, now)

    def _lose(self, result: AttributesResult, now: float) -> bool:
        lost = result.held == 0 and now - self._ahead_at >= REPEAT_SECONDS
        lost = lost and bool(self._ahead) and self._ahead[-1].sequence > result.sequence
        while lost and self._ahead and self._ahead[-1].sequence > result.sequence:
            self._bytes -= _bytes(self._ahead.pop())
        return lost

    @property
    def is_answered(self) -> bool:
        return self.current is not None and bool(self._answers) and self._answers[0].sequence == self.current.sequence

    def take_answer(self) -> AttributesResult | None:
        """Return the answer to the current attributes, which ends the wait for it."""
        if not self.is_answered:
            return None
        self.current = None
        return self._answers.popleft()


def _bytes(derived: AttributesReady) -> int:
    return sum(map(len, derived.attributes.transactions))
