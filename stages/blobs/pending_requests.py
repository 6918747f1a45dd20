"""Requests of blobs and of Alt-DA inputs that are not answered yet, and their caches: pure bookkeeping."""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any, Generic, TypeVar

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.blobs import (
    BlobContent,
    BlobsRequest,
    BlobsResponse,
    BlobsUnavailable,
    InputRequest,
    InputResponse,
    InputTooLarge,
    InputUnavailable,
)
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.bounded_cache import BoundedCache
from rollup_node.stages.protocol.commitments import Commitment
from rollup_node.stages.protocol.pacing import backoff
from rollup_node.stages.protocol.types import BlobRef, Hash, L1BlockRef

SHORTEST_PAUSE, FIRST_PAUSE = 0.05, 0.5
MAX_PAUSE = 10.0
EXPIRY_SECONDS = 60.0
URGENT_SECONDS = 3.0
"""How long an urgent request stays urgent without a repetition: a client that waits repeats several times a second."""

MAX_PENDING = 1024

Key = tuple[Hash, tuple[BlobRef, ...]]
K = TypeVar("K", bound=Hashable)
MAX_INPUT_PAUSE = 5.0
INPUT_EXPIRY_SECONDS = 30.0
MAX_PENDING_INPUTS = 256
INPUT_CACHE_BYTES = 32 << 20
Found = InputResponse | InputTooLarge


@dataclass
class Pending(Generic[K]):
    """What was requested last at a time, and is not there; times are seconds of any monotonic clock."""

    key: K
    urgent: bool
    requested_at: float
    is_fetching: bool = field(default=False, kw_only=True)
    failures: int = field(default=0, kw_only=True)
    retry_at: float = field(default=0.0, kw_only=True)

    @property
    def is_idle(self) -> bool:
        """Whether it is to be fetched once `retry_at` is over."""
        return not self.is_fetching

    def hurry(self, now: float) -> None:
        """Note that it is needed now: fetches ahead of need that have failed delay nothing."""
        if not self.urgent:
            self.urgent, self.failures, self.retry_at = True, 0, min(self.retry_at, now)

    def pause(self, now: float, longest: float) -> None:
        """Record a failed fetch; the next one is due after a pause that doubles."""
        self.failures += 1
        self.retry_at = now + backoff(self.failures, FIRST_PAUSE, longest)


P = TypeVar("P", bound=Pending[Any])


class PendingTable(Generic[K, P]):
    """Requests by key: at most `most`, each for `expiry` seconds after its last repetition."""

    def __init__(self, most: int, expiry: float) -> None:
        self._most, self._expiry = most, expiry
        self._pending: dict[K, P] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self) -> Iterator[P]:
        return iter(tuple(self._pending.values()))

    def due(self, now: float) -> list[P]:
        """Return the requests to fetch now: urgent ones first, then in the order of their first requests."""
        return sorted((e for e in self if e.is_idle and e.retry_at <= now), key=lambda item: not item.urgent)

    def next_retry(self, now: float, most: float) -> float:
        """Seconds until a failed request is due again, `most` if there is none before."""
        retry = min((item.retry_at - now for item in self if item.is_idle and item.retry_at > now), default=most)
        return min(max(retry, SHORTEST_PAUSE), most)

    def remove(self, pending: P) -> None:
        self._pending.pop(pending.key, None)

    def expire(self, now: float) -> None:
        """Remove requests that are not repeated, and beyond the most; urgency ends after URGENT_SECONDS."""
        for item in self:
            item.urgent = item.urgent and now - item.requested_at <= URGENT_SECONDS
        idle = sorted((e for e in self if not e.is_fetching), key=lambda item: (item.urgent, item.requested_at))
        stale = [item for item in idle if now - item.requested_at > self._expiry]
        for item in (*stale, *idle[: max(0, len(self) - self._most)]):
            self.remove(item)


@dataclass
class PendingRequest(Pending[Key]):
    """Requested blobs of one L1 block, and the clients to answer, one for each row.

    Its verification `may_wait` while all clients say so. `code` and `reason` are those of the last failure, if it has
    a code, `error` is the problem; `is_reported` once a failure has been logged as one that derivation waits for."""

    block: L1BlockRef
    blobs: tuple[BlobRef, ...]
    may_wait: bool = False
    clients: dict[int, ProcessId] = field(default_factory=dict)
    contents: dict[Hash, BlobContent] = field(default_factory=dict)
    error: Problem | None = None
    code: Code | None = None
    reason: str = ""
    is_reported: bool = False
    not_found: bool = False

    @property
    def is_idle(self) -> bool:
        return not self.is_fetching and bool(self.missing)

    @property
    def missing(self) -> tuple[BlobRef, ...]:
        """The blobs that are not there yet, each hash once."""
        unique: dict[Hash, BlobRef] = {}
        for ref in self.blobs:
            if ref.hash not in self.contents:
                unique.setdefault(ref.hash, ref)
        return tuple(unique.values())

    def add(self, contents: Iterable[BlobContent]) -> None:
        wanted = {ref.hash for ref in self.blobs}
        self.contents.update({content.hash: content for content in contents if content.hash in wanted})

    def failed(self, code: Code | None, reason: str, not_found: bool, now: float) -> None:
        """Record a failed fetch."""
        self.pause(now, MAX_PAUSE)
        self.code, self.reason, self.not_found = code, reason, not_found
        self.error = Problem(code, f"blobs of L1 block {self.block}", reason)

    def response(self) -> BlobsResponse | BlobsUnavailable | None:
        """Return the blobs in the order requested, or the last fetch's error; None before the first fetch ends.

        While another fetch runs it is open whether they are there."""
        if not self.missing:
            return BlobsResponse(self.block.hash, tuple(self.contents[ref.hash] for ref in self.blobs))
        if self.error is None:
            return None
        return BlobsUnavailable(self.block.hash, self.not_found and not self.is_fetching, str(self.error))


class PendingRequests(PendingTable[Key, PendingRequest]):
    """All pending requests, and the cache of decoded blobs."""

    def __init__(self, cache_bytes: int) -> None:
        super().__init__(MAX_PENDING, EXPIRY_SECONDS)
        self.cache: BoundedCache[Hash, BlobContent] = BoundedCache(cache_bytes)

    def request(self, client: ProcessId, request: BlobsRequest, now: float) -> PendingRequest:
        """Take a request or its repetition, and fills in cached blobs."""
        key = (request.block.hash, request.blobs)
        pending = self._pending.get(key)
        if pending is None:
            pending = PendingRequest(key, request.urgent, now, request.block, request.blobs, request.may_wait)
            self._pending[key] = pending
        if request.urgent:
            pending.hurry(now)
        pending.may_wait = pending.may_wait and request.may_wait
        pending.requested_at = now
        pending.clients[client.slot] = client
        pending.add(content for ref in pending.missing if (content := self.cache.get(ref.hash)) is not None)
        return pending

    def due(self, now: float) -> list[PendingRequest]:
        """Return the requests to fetch for now: urgent ones first, then by block number."""
        return sorted(super().due(now), key=lambda item: (not item.urgent, item.block.number))


def content_size(content: BlobContent) -> int:
    """Return about the bytes of memory that a blob takes."""
    return 300 + len(content.data or b"")


@dataclass
class PendingInput(Pending[Commitment]):
    """A requested input by commitment, and the clients to answer, one for each row, with the last request's number.

    `start` is that of the last request."""

    clients: dict[int, tuple[ProcessId, int]] = field(default_factory=dict)
    start: int = 0
    error: str | None = None

    def failed(self, error: str, not_found: bool, now: float) -> InputUnavailable:
        """Record a failed fetch."""
        self.pause(now, MAX_INPUT_PAUSE)
        self.error = error
        return InputUnavailable(self.key, not_found, error)

    def postponed(self, error: str) -> InputUnavailable:
        """Record that it is not fetched again before it is needed."""
        self.retry_at = 0.0 if self.urgent else inf
        return InputUnavailable(self.key, False, error)


class PendingInputs(PendingTable[Commitment, PendingInput]):
    """All inputs that are requested and not there."""

    def __init__(self) -> None:
        super().__init__(MAX_PENDING_INPUTS, INPUT_EXPIRY_SECONDS)

    def request(self, client: ProcessId, request: InputRequest, now: float) -> PendingInput:
        fresh = PendingInput(request.commitment, request.urgent, now)
        pending = self._pending.setdefault(request.commitment, fresh)
        pending.requested_at, pending.start = now, request.start
        if request.urgent:
            pending.hurry(now)
            pending.clients[client.slot] = client, request.number
        return pending


def input_size(answer: Found) -> int:
    """Return about the bytes of memory that an input takes."""
    return 400 + len(answer.commitment.content) + (len(answer.data) if isinstance(answer, InputResponse) else 0)
