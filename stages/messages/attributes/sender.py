"""The attributes that the engine process has not answered, the deriver's and those derived ahead [ENG40]."""

from collections import deque

import msgspec

from rollup_node.stages.messages.base import Message
from rollup_node.stages.messages.engine import AttributesAhead, AttributesOutcome, AttributesReady, AttributesResult

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

    # --- what is derived -------------------------------------------------------------------------------------------

    def derived(self, output: AttributesReady, now: float) -> None:
        """Take the attributes that the deriver waits for.

        If they are those that were derived ahead, the engine process has them."""
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
        """Whether attributes can be added."""
        return len(self._ahead) < self._most and self._bytes < MAX_BYTES

    def due(self, now: float) -> list[Message]:
        """Return the messages to send now."""
        messages: list[Message] = []
        if self.current is not None and now - self._sent_at >= REPEAT_SECONDS:
            self._sent_at = now
            messages.append(self.current)
        if self._unsent:
            messages.append(AttributesAhead(tuple(self._unsent)))
            self._unsent.clear()
            self._ahead_at = now
        return messages

    # --- what becomes of it ----------------------------------------------------------------------------------------

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
        """Whether the answer to the current attributes is there."""
        return self.current is not None and bool(self._answers) and self._answers[0].sequence == self.current.sequence

    def take_answer(self) -> AttributesResult | None:
        """Return the answer to the current attributes, which ends the wait for it."""
        if not self.is_answered:
            return None
        self.current = None
        return self._answers.popleft()


def _bytes(derived: AttributesReady) -> int:
    return sum(map(len, derived.attributes.transactions))
