"""Who waits for which blobs, and what is already had: pure bookkeeping of the blobs process."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.messages.blobs import BlobContent, BlobsRequest, BlobsResponse, BlobsUnavailable
from rollup_node.stages.protocol.types import BlobRef, Hash, L1BlockRef

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 10.0
FORGET_SECONDS = 60.0
URGENT_SECONDS = 3.0
"""So long after the last ask a need is no longer urgent: who waits for one asks several times a second."""

MAX_NEEDS = 1024

Key = tuple[Hash, tuple[BlobRef, ...]]


class ContentCache:
    """Contents by hash, the least recently used dropped first; bounded in bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._contents: OrderedDict[Hash, BlobContent] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._contents)

    def get(self, blob_hash: Hash) -> BlobContent | None:
        """A content, which counts as used now."""
        content = self._contents.get(blob_hash)
        if content is not None:
            self._contents.move_to_end(blob_hash)
        return content

    def put(self, content: BlobContent) -> None:
        """Keeps a content."""
        if content.hash not in self._contents:
            self._contents[content.hash] = content
            self.bytes += _size(content)
        while self.bytes > self._max_bytes and len(self._contents) > 1:
            _, dropped = self._contents.popitem(last=False)
            self.bytes -= _size(dropped)


@dataclass
class Need:
    """Some blobs of one L1 block that are waited for, and by whom (one peer a row). Times are seconds of any steady
    clock."""

    block: L1BlockRef
    blobs: tuple[BlobRef, ...]
    urgent: bool
    asked_at: float
    askers: dict[int, ProcessId] = field(default_factory=dict)
    contents: dict[Hash, BlobContent] = field(default_factory=dict)
    is_running: bool = False
    failures: int = 0
    retry_at: float = 0.0
    problem: str | None = None
    not_found: bool = False

    @property
    def missing(self) -> tuple[BlobRef, ...]:
        """Those not had yet, each hash once."""
        unique: dict[Hash, BlobRef] = {}
        for ref in self.blobs:
            if ref.hash not in self.contents:
                unique.setdefault(ref.hash, ref)
        return tuple(unique.values())

    def take(self, contents: Iterable[BlobContent]) -> None:
        """Takes those it waits for."""
        wanted = {ref.hash for ref in self.blobs}
        self.contents.update({content.hash: content for content in contents if content.hash in wanted})

    def failed(self, problem: str, not_found: bool, now: float) -> None:
        """Notes that they could not be had; they are due again after a pause that doubles."""
        self.failures += 1
        self.problem, self.not_found = problem, not_found
        self.retry_at = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self.failures - 1, 10))

    def answer(self) -> BlobsResponse | BlobsUnavailable | None:
        """What to tell who asks: the contents, or why there are none; None while it is not known."""
        if not self.missing:
            return BlobsResponse(self.block.hash, tuple(self.contents[ref.hash] for ref in self.blobs))
        if self.problem is None:
            return None
        return BlobsUnavailable(self.block.hash, self.not_found, self.problem)


class Needs:
    """All needs of the clients, over a cache of contents."""

    def __init__(self, cache_bytes: int) -> None:
        self.cache = ContentCache(cache_bytes)
        self._needs: dict[Key, Need] = {}

    def __len__(self) -> int:
        return len(self._needs)

    def __iter__(self) -> Iterator[Need]:
        return iter(tuple(self._needs.values()))

    def ask(self, peer: ProcessId, want: BlobsRequest, now: float) -> Need:
        """Takes an ask; what is in the cache is filled in."""
        key = (want.block.hash, want.blobs)
        need = self._needs.get(key)
        if need is None:
            need = Need(want.block, want.blobs, want.urgent, now)
            self._needs[key] = need
        need.urgent = need.urgent or want.urgent
        need.asked_at = now
        need.askers[peer.slot] = peer
        need.take(content for ref in need.missing if (content := self.cache.get(ref.hash)) is not None)
        return need

    def due(self, now: float) -> list[Need]:
        """Needs to be worked on now: urgent ones first, then by block."""
        due = [need for need in self._needs.values() if need.missing and not need.is_running and need.retry_at <= now]
        return sorted(due, key=lambda need: (not need.urgent, need.block.number))

    def next_retry(self, now: float) -> float | None:
        """Seconds until a need that failed is due again."""
        waits = [need.retry_at - now for need in self._needs.values() if need.missing and not need.is_running]
        return min((wait for wait in waits if wait > 0), default=None)

    def done(self, need: Need) -> None:
        """Has been answered for good."""
        self._needs.pop((need.block.hash, need.blobs), None)

    def forget(self, now: float) -> None:
        """Drops what nobody has asked for again, and what is too many; urgency goes before that."""
        for need in self:
            need.urgent = need.urgent and now - need.asked_at <= URGENT_SECONDS
        stale = [need for need in self if not need.is_running and now - need.asked_at > FORGET_SECONDS]
        spare = sorted((need for need in self if not need.is_running), key=lambda need: (need.urgent, need.asked_at))
        for need in (*stale, *spare[: max(0, len(self) - MAX_NEEDS)]):
            self.done(need)


def _size(content: BlobContent) -> int:
    return 300 + len(content.data or b"")
