"""Inputs of Alt-DA commitments that are requested and not there yet, and a cache of those that are: pure bookkeeping of
the blobs process."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.messages.blobs import InputResponse, InputTooLarge, InputUnavailable
from rollup_node.stages.protocol.commitments import Commitment

FIRST_PAUSE, MAX_PAUSE = 0.5, 5.0
EXPIRY_SECONDS = 30.0
URGENT_SECONDS = 3.0
"""How long an urgent request stays urgent without a repetition: a client that waits repeats several times a second."""
MAX_PENDING = 256
CACHE_BYTES = 32 << 20

Found = InputResponse | InputTooLarge


class InputCache:
    """Inputs by commitment, bounded in bytes; the least recently used is dropped first."""

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._found: OrderedDict[Commitment, Found] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._found)

    def get(self, commitment: Commitment) -> Found | None:
        """A cached input, which counts as used now."""
        found = self._found.get(commitment)
        if found is not None:
            self._found.move_to_end(commitment)
        return found

    def put(self, found: Found) -> None:
        """Adds an input."""
        if found.commitment not in self._found:
            self._found[found.commitment] = found
            self.bytes += _size(found)
        while self.bytes > self._max_bytes and len(self._found) > 1:
            self.bytes -= _size(self._found.popitem(last=False)[1])


@dataclass
class PendingInput:
    """A requested input, and the clients to answer, one for each row: those that wait for it. Times are seconds of any
    monotonic clock."""

    commitment: Commitment
    urgent: bool
    requested_at: float
    clients: dict[int, ProcessId] = field(default_factory=dict)
    is_fetching: bool = False
    failures: int = 0
    retry_at: float = 0.0
    error: str | None = None

    def failed(self, error: str, not_found: bool, now: float) -> InputUnavailable:
        """Records a failed fetch; the next one is due after a pause that doubles."""
        self.failures += 1
        self.error = error
        self.retry_at = now + min(MAX_PAUSE, FIRST_PAUSE * 2.0 ** min(self.failures - 1, 10))
        return InputUnavailable(self.commitment, not_found, error)

    def postponed(self, error: str) -> InputUnavailable:
        """Records that it is not fetched again before it is needed."""
        self.retry_at = 0.0 if self.urgent else inf
        return InputUnavailable(self.commitment, False, error)


class PendingInputs:
    """All inputs that are requested and not there."""

    def __init__(self) -> None:
        self._pending: dict[Commitment, PendingInput] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self) -> Iterator[PendingInput]:
        return iter(tuple(self._pending.values()))

    def request(self, client: ProcessId, commitment: Commitment, urgent: bool, now: float) -> PendingInput:
        """Takes a request or its repetition."""
        pending = self._pending.get(commitment)
        if pending is None:
            pending = self._pending[commitment] = PendingInput(commitment, urgent, now)
        pending.requested_at = now
        if urgent and not pending.urgent:
            pending.urgent, pending.retry_at = True, min(pending.retry_at, now)
        if urgent:
            pending.clients[client.slot] = client
        return pending

    def due(self, now: float) -> list[PendingInput]:
        """The inputs to fetch now: urgent ones first, then in the order of their requests."""
        due = [each for each in self if not each.is_fetching and each.retry_at <= now]
        return sorted(due, key=lambda each: not each.urgent)

    def next_retry(self, now: float) -> float | None:
        """Seconds until a failed one is due again; None if there is none."""
        waits = (each.retry_at - now for each in self if not each.is_fetching and each.retry_at > now)
        return min(waits, default=None)

    def remove(self, pending: PendingInput) -> None:
        """Removes one that is there."""
        self._pending.pop(pending.commitment, None)

    def expire(self, now: float) -> None:
        """Removes those that were not requested for EXPIRY_SECONDS, and the oldest beyond MAX_PENDING, urgent ones
        last. Urgency ends after URGENT_SECONDS."""
        for each in self:
            each.urgent = each.urgent and now - each.requested_at <= URGENT_SECONDS
        idle = sorted((e for e in self if not e.is_fetching), key=lambda each: (each.urgent, each.requested_at))
        stale = [each for each in idle if now - each.requested_at > EXPIRY_SECONDS]
        for each in (*stale, *idle[: max(0, len(self) - MAX_PENDING)]):
            self.remove(each)


def _size(found: Found) -> int:
    return 400 + len(found.commitment.content) + (len(found.data) if isinstance(found, InputResponse) else 0)
