"""What a light client asks a Beacon API for next, and what it makes of the answers [LCP10 to LCP12]."""

from enum import Enum
from typing import NamedTuple

from rollup_node.stages.l1.light_client.beacon_json import (
    UPDATES_PER_REQUEST,
    parse_bootstrap,
    parse_update,
    parse_updates,
)
from rollup_node.stages.l1.light_client.network import BeaconNetwork
from rollup_node.stages.l1.light_client.ssz import Root
from rollup_node.stages.l1.light_client.store import LightClientStore, Refusal, check_bootstrap
from rollup_node.stages.protocol.hex_encoding import to_hex

ROUTES = "eth/v1/beacon/light_client"

WEAK_SUBJECTIVITY_SECONDS = 14 * 86_400
"""A checkpoint must not be older: validators that have left since could sign another chain without a loss."""

COMMITTEE_RETRIES = 64
"""So often in a period the next sync committee is asked for until it is known."""


class Kind(Enum):
    """What a request is for."""

    BOOTSTRAP = "bootstrap"
    UPDATES = "updates"
    FINALITY = "finality_update"
    OPTIMISTIC = "optimistic_update"


class Request(NamedTuple):
    """A request to a Beacon API, by its path below the base URL and its query."""

    kind: Kind
    path: str
    query: tuple[tuple[str, str], ...] = ()


class LightClient:
    """A client that starts from a trusted block root.

    Raises LightClientDataError where an answer is malformed. Times are Unix seconds of the local clock."""

    def __init__(self, network: BeaconNetwork, root: Root) -> None:
        self.network, self.root = network, root
        self.store: LightClientStore | None = None
        self._finality_moved: int | None = None
        self._committee_asked: int | None = None

    def is_synced(self, now: float) -> bool:
        """Whether it knows the committee that signs now."""
        store, slot = self.store, self.network.slot_at(now)
        if store is None:
            return False
        ahead = self.network.period_of(slot) - store.period
        return ahead <= (1 if self._knows_next(store) else 0)

    def requests(self, now: float) -> list[Request]:
        """Return what to ask for now, in this order; asked for again while it has not come."""
        store, slot = self.store, self.network.slot_at(now)
        if store is None:
            return [Request(Kind.BOOTSTRAP, f"{ROUTES}/bootstrap/{to_hex(self.root)}")]
        if not self.is_synced(now):
            return [self.updates(now)]
        result = [Request(Kind.OPTIMISTIC, f"{ROUTES}/optimistic_update")]
        # The next epoch's end finalizes the next block.
        if _is_due(slot, self._finality_moved, self.network.preset.slots_per_epoch // 4):
            result.append(Request(Kind.FINALITY, f"{ROUTES}/finality_update"))
        interval = self.network.slots_per_period // COMMITTEE_RETRIES
        if not self._knows_next(store) and _is_due(slot, self._committee_asked, interval):
            result.append(self.updates(now))
            self._committee_asked = slot
        return result

    def updates(self, now: float) -> Request:
        """Return the request for the first periods whose next committee is not known; only with a store."""
        store = self.store
        assert store is not None
        start = store.period + (1 if self._knows_next(store) else 0)
        last = self.network.period_of(self.network.slot_at(now))
        count = min(UPDATES_PER_REQUEST, max(1, last - start + 1))
        return Request(Kind.UPDATES, f"{ROUTES}/updates", (("start_period", str(start)), ("count", str(count))))

    def take(self, request: Request, body: bytes, now: float) -> Refusal | None:
        """Take the answer to a request; returns why it is refused. Of several updates it takes those before that."""
        slot = self.network.slot_at(now)
        if request.kind is Kind.BOOTSTRAP or self.store is None:
            return self._start(body)
        if request.kind is Kind.UPDATES:
            refusals = [self.store.process(update, slot) for update in parse_updates(body, self.network)]
            # An endpoint may not have the update of the present period yet.
            return next((item for item in refusals if item is not None and item.is_lie), None)
        finalized = self.store.finalized
        refusal = self.store.process(parse_update(body, self.network), slot)
        if request.kind is Kind.FINALITY and self.store.finalized != finalized:
            self._finality_moved = slot
        return refusal

    def age_of(self, slot: int, now: float) -> float:
        """Return the seconds since a slot."""
        return now - self.network.time_of(slot)

    def is_too_old(self, now: float) -> bool:
        """Whether the finalized header is older than the weak subjectivity period, so that it proves nothing."""
        store = self.store
        return store is not None and self.age_of(store.finalized.beacon.slot, now) > WEAK_SUBJECTIVITY_SECONDS

    def _start(self, body: bytes) -> Refusal | None:
        bootstrap = parse_bootstrap(body, self.network)
        refusal = check_bootstrap(bootstrap, self.root, self.network)
        if refusal is None:
            self.store = LightClientStore(self.network, bootstrap)
        return refusal

    @staticmethod
    def _knows_next(store: LightClientStore) -> bool:
        return store.next_sync_committee is not None


def _is_due(slot: int, last: int | None, interval: int) -> bool:
    """Whether it is `interval` slots since the last time, or that is ahead, as the clock was set back."""
    return last is None or not last <= slot < last + max(1, interval)
