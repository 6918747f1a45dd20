"""Pending requests for inputs of Alt-DA commitments, and a cache of inputs: the blobs process's bookkeeping."""

from dataclasses import dataclass, field
from math import inf

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.blobs.blob_requests import Pending, PendingTable
from rollup_node.stages.messages.blobs import InputRequest, InputResponse, InputTooLarge, InputUnavailable
from rollup_node.stages.protocol.bounded_cache import BoundedCache
from rollup_node.stages.protocol.commitments import Commitment

MAX_PAUSE = 5.0
EXPIRY_SECONDS = 30.0
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
class PendingInput(Pending[Commitment]):
    """A requested input by commitment, and the clients to answer, one for each row, with the last request's number.

    `start` is that of the last request."""

    clients: dict[int, tuple[ProcessId, int]] = field(default_factory=dict)
    start: int = 0
    error: str | None = None

    def failed(self, error: str, not_found: bool, now: float) -> InputUnavailable:
        """Record a failed fetch."""
        self.pause(now, MAX_PAUSE)
        self.error = error
        return InputUnavailable(self.key, not_found, error)

    def postponed(self, error: str) -> InputUnavailable:
        """Record that it is not fetched again before it is needed."""
        self.retry_at = 0.0 if self.urgent else inf
        return InputUnavailable(self.key, False, error)


class PendingInputs(PendingTable[Commitment, PendingInput]):
    """All inputs that are requested and not there."""

    def __init__(self) -> None:
        super().__init__(MAX_PENDING, EXPIRY_SECONDS)

    def request(self, client: ProcessId, request: InputRequest, now: float) -> PendingInput:
        fresh = PendingInput(request.commitment, request.urgent, now)
        pending = self._pending.setdefault(request.commitment, fresh)
        pending.requested_at, pending.start = now, request.start
        if request.urgent and not pending.urgent:
            pending.urgent, pending.retry_at = True, min(pending.retry_at, now)
        if request.urgent:
            pending.clients[client.slot] = client, request.number
        return pending


def _size(answer: Found) -> int:
    return 400 + len(answer.commitment.content) + (len(answer.data) if isinstance(answer, InputResponse) else 0)
