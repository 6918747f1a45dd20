"""Requests of the derivation process to the l1, blobs and engine processes.

Every request is repeated until it is met, so that a restart of another process only delays derivation. How
long it waited for each of its neighbours, and how long it worked itself, is measured [LOG17]."""

import time
from collections.abc import Callable, Hashable, Sequence

from rollup_node.ipc.bus.bus import Client
from rollup_node.stages.derivation.pipeline import outputs
from rollup_node.stages.derivation.pipeline.deriver import Output
from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs
from rollup_node.stages.messages.blobs import BlobsRequest
from rollup_node.stages.messages.derivation import DerivationWaits
from rollup_node.stages.messages.engine import L2BlocksRequest, StartRequest
from rollup_node.stages.messages.l1 import L1BlocksRequest

_NEIGHBOURS: dict[type, str] = {
    **dict.fromkeys((outputs.NeedL1Block, outputs.NeedChallenges), "l1"),
    **dict.fromkeys((outputs.NeedBlobs, outputs.NeedInput), "blobs"),
    outputs.NeedDecoded: "compute",
}
"""The processes that meet needs, but for the engine."""


class WaitClock:
    """Adds the time between two changes of what derivation does, by a monotonic `clock` in seconds, to what it did."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds = dict.fromkeys(DerivationWaits.__struct_fields__, 0.0)
        self._current: str | None = None
        self._since = 0.0

    @property
    def waits(self) -> DerivationWaits:
        """Whole seconds so far: a status that says more would be published all the time."""
        return DerivationWaits(**{name: int(seconds) for name, seconds in self._seconds.items()})

    def works(self) -> None:
        """Note that derivation works from now on."""
        self._change("derivation")

    def waits_for(self, need: Output | None) -> None:
        """Note that derivation waits for what meets its need; without one for the engine, which starts it."""
        self._change(_NEIGHBOURS.get(type(need), "engine"))

    def rests(self) -> None:
        """Note that derivation has read all of L1."""
        self._change(None)

    def _change(self, current: str | None) -> None:
        now = self._clock()
        if self._current is not None:
            self._seconds[self._current] += now - self._since
        self._current, self._since = current, now


Request = L1BlocksRequest | BlobsRequest | StartRequest | L2BlocksRequest

REPEAT_SECONDS = 0.5
PREFETCH_SECONDS = 1.0
MAX_PREFETCHED = 24 << 20
"""Bytes of blobs that are held and requested ahead of need."""
VERIFIED_AHEAD = 128 << 10
"""While frames of so many bytes wait for the pipeline, blobs may wait to be verified with others."""
BLOB_BYTES = 131_072


class Requests:
    """Requests by kind; each call is one attempt at time `now`, in seconds of a steady clock."""

    def __init__(self, l1: Client, blobs: Client, engine: Client) -> None:
        self._blobs = blobs
        self._clients = {L1BlocksRequest: l1, BlobsRequest: blobs, StartRequest: engine, L2BlocksRequest: engine}
        self._throttle, self._prefetch_throttle = Throttle(REPEAT_SECONDS), Throttle(PREFETCH_SECONDS)

    def restart(self) -> None:
        """Request everything at once, as derivation starts again."""
        self._throttle.clear()
        self._prefetch_throttle.clear()

    def send(self, request: Request, now: float) -> None:
        """Send a request to the process that answers it, unless the last one of its kind was the same a moment ago."""
        if self._throttle.is_due(type(request), request, now):
            self._clients[type(request)].send(request)

    def prefetch_blobs(self, needs: Sequence[NeedBlobs], urgent: object, held: int, now: float) -> None:
        """Request the next blobs, nearest first, up to the bound with the `held` bytes; not the `urgent` ones."""
        names: set[Hashable] = set()
        may_wait = held > VERIFIED_AHEAD
        for need in needs:
            if held > MAX_PREFETCHED:
                break
            held += BLOB_BYTES * len(need.blobs)
            names.add(need.block.hash)
            request = BlobsRequest(need.block, need.blobs, False, may_wait)
            if need != urgent and self._prefetch_throttle.is_due(need.block.hash, request, now):
                self._blobs.send(request)
        self._prefetch_throttle.retain(names)


class Throttle:
    """The last message sent under each name. Times are seconds of any steady clock."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._sent: dict[Hashable, tuple[object, float]] = {}

    def is_due(self, name: Hashable, message: object, now: float) -> bool:
        """Whether to send `message` now, which then counts as sent: it is new under this name, or an interval old."""
        sent = self._sent.get(name)
        if sent is not None and sent[0] == message and now - sent[1] < self._interval:
            return False
        self._sent[name] = message, now
        return True

    def retain(self, names: set[Hashable]) -> None:
        """Discard all other names."""
        for name in self._sent.keys() - names:
            del self._sent[name]

    def clear(self) -> None:
        """Discard all names: everything is due."""
        self._sent.clear()
