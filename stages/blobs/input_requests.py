"""Pending requests for inputs of Alt-DA commitments, and a cache of inputs: the blobs process's bookkeeping."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.messages.blobs import InputRequest, InputResponse, InputTooLarge, InputUnavailable
from rollup_node.stages.protocol.bounded_cache import BoundedCache
from rollup_node.stages.protocol.commitments import Commitment
from rollup_node.stages.protocol.pacing import backoff

FIRST_PAUSE, MAX_PAUSE = 0.5, 5.0
EXPIRY_SECONDS = 30.0
URGENT_SECONDS = 3.0
"""How long an urgent request stays urgent without a repetition: a client that waits repeats several times a second."""
MAX_PENDING = 256
CACHE_BYTES = 32 << 20

Found = InputResponse | InputTooLarge


class InputCache:
    """Inputs by commitment; an unverified one is valid for one start, so wrong ones do not survive a reset [ADA16]."""

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self._inputs: BoundedCache[Commitment, tuple[Found, int | None]] = BoundedCache(max_bytes)

    def get(self, commitment: Commitment, start: int = 0) -> Found | None:
        answer, valid_for = self._inputs.get(commitment) or (None, None)
        return answer if valid_for in (None, start) else None

    def put(self, answer: Found, start: int | None = None) -> None:
        """Add an input in place of any other of its commitment; `start` if it is valid for that one alone."""
        self._inputs.put(answer.commitment, (answer, start), _size(answer))


@dataclass
class PendingInput:
    """A requested input, and the clients to answer, one for each row, with the number of the last request.

    `start` is that of the last request. Times are seconds of any monotonic clock."""

    commitment: Commitment
    urgent: bool
    requested_at: float
    clients: dict[int, tuple[ProcessId, int]] = field(default_factory=dict)
    start: int = 0
    is_fetching: bool = False
    failures: int = 0
    retry_at: float = 0.0
    error: str | None = None

    def failed(self, error: str, not_found: bool, now: float) -> InputUnavailable:
        """Record a failed fetch; the next one is due after a pause that doubles."""
        self.failures += 1
        self.error = error
        self.retry_at = now + backoff(self.failures, FIRST_PAUSE, MAX_PAUSE)
        return InputUnavailable(self.commitment, not_found, error)

    def postponed(self, error: str) -> InputUnavailable:
        """Record that it is not fetched again before it is needed."""
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

    def request(self, client: ProcessId, request: InputRequest, now: float) -> PendingInput:
        pending = self._pending.get(request.commitment)
        if pending is None:
            pending = self._pending[request.commitment] = PendingInput(request.commitment, request.urgent, now)
        pending.requested_at, pending.start = now, request.start
        if request.urgent and not pending.urgent:
            pending.urgent, pending.retry_at = True, min(pending.retry_at, now)
        if request.urgent:
            pending.clients[client.slot] = client, request.number
        return pending

    def due(self, now: float) -> list[PendingInput]:
        """Return the inputs to fetch now: urgent ones first, then in the order of their requests."""
        due = [item for item in self if not item.is_fetching and item.retry_at <= now]
        return sorted(due, key=lambda item: not item.urgent)

    def next_retry(self, now: float) -> float | None:
        """Seconds until a failed one is due again; None if there is none."""
        waits = (item.retry_at - now for item in self if not item.is_fetching and item.retry_at > now)
        return min(waits, default=None)

    def remove(self, pending: PendingInput) -> None:
        self._pending.pop(pending.commitment, None)

    def expire(self, now: float) -> None:
        """Remove requests not repeated for EXPIRY_SECONDS and beyond MAX_PENDING; urgency ends after URGENT_SECONDS."""
        for item in self:
            item.urgent = item.urgent and now - item.requested_at <= URGENT_SECONDS
        idle = sorted((e for e in self if not e.is_fetching), key=lambda item: (item.urgent, item.requested_at))
        stale = [item for item in idle if now - item.requested_at > EXPIRY_SECONDS]
        for item in (*stale, *idle[: max(0, len(self) - MAX_PENDING)]):
            self.remove(item)


def _size(answer: Found) -> int:
    return 400 + len(answer.commitment.content) + (len(answer.data) if isinstance(answer, InputResponse) else 0)
