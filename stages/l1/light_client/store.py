"""What a light client believes, the rules by which an update moves it, and what it asks for next [LCP6 to LCP12].

Signatures are BLS ones of the consensus layer: public keys in G1, signatures in G2, proof of possession [LCP2]."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from py_arkworks_bls12381 import GT, G1Point, G2Point

from rollup_node.stages.l1.light_client.beacon_json import (
    UPDATES_PER_REQUEST,
    parse_bootstrap,
    parse_update,
    parse_updates,
)
from rollup_node.stages.l1.light_client.containers import LightClientBootstrap, LightClientUpdate, SyncCommittee
from rollup_node.stages.l1.light_client.network import BeaconNetwork
from rollup_node.stages.l1.light_client.ssz import ZERO_ROOT, Root, compute_signing_root, is_valid_branch
from rollup_node.stages.protocol.hex_encoding import to_hex

DST = b"BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_"
"""Domain separation tag of the proof of possession scheme."""

ROUTES = "eth/v1/beacon/light_client"

WEAK_SUBJECTIVITY_SECONDS = 14 * 86_400
"""A checkpoint must not be older: validators that have left since could sign another chain without a loss."""

COMMITTEE_RETRIES = 64
"""So often in a period the next sync committee is asked for until it is known."""


def public_keys(compressed: Sequence[bytes]) -> list[G1Point]:
    """Return the points of keys that are part of a proven beacon state, which holds only keys of the subgroup.

    Raises ValueError for one that is no point of the curve, or the point at infinity."""
    points = [G1Point.from_compressed_bytes_unchecked(key) for key in compressed]
    if any(point == G1Point.identity() for point in points):
        raise ValueError("a public key is the point at infinity")
    return points


def fast_aggregate_verify(keys: Sequence[G1Point], message: bytes, signature: bytes) -> bool:
    """Whether a signature of 96 bytes is that of all keys over the same message; False for no keys."""
    if not keys:
        return False
    try:
        point = G2Point.from_compressed_bytes(signature)
    except ValueError:
        return False
    return bool(GT.pairing_check([sum(keys[1:], keys[0]), -G1Point()], [G2Point.hash_to_curve(message, DST), point]))


class Refusal(Enum):
    """Why a bootstrap or an update is not taken, in words; `is_lie`: no honest endpoint returns it."""

    OTHER_ROOT = ("is of another block than the checkpoint", True)
    NO_PARTICIPANTS = ("nobody has signed it", True)
    HEADER = ("its execution block hash is not the one in the beacon block", True)
    SLOTS = ("its slots are not in order", True)
    FUTURE = ("it was signed in a slot that has not come yet: check this machine's clock", False)
    PERIOD = ("its sync committee is not known", False)
    NOT_RELEVANT = ("it has nothing new", False)
    FINALITY = ("its finalized block is not the one in the beacon state", True)
    COMMITTEE = ("its sync committee is not the one in the beacon state", True)
    OTHER_COMMITTEE = ("its next sync committee is another one than that which is known", True)
    SIGNATURE = ("its signature is not that of the sync committee", True)

    def __init__(self, words: str, is_lie: bool) -> None:
        self.words, self.is_lie = words, is_lie


class LightClientStore:
    """Finalized and optimistic header, and the committees of the finalized header's period and of the next, if known.

    `participants` is how many members have signed the optimistic header.

    Made from the bootstrap of a trusted root, which `check_bootstrap` has accepted."""

    def __init__(self, network: BeaconNetwork, bootstrap: LightClientBootstrap) -> None:
        self._network = network
        self.finalized = self.optimistic = bootstrap.header
        self.current_sync_committee = bootstrap.current_sync_committee
        self.next_sync_committee: SyncCommittee | None = None
        self.participants = 0
        self._keys: dict[Root, Sequence[G1Point]] = {}

    @property
    def period(self) -> int:
        """The sync committee period of the finalized header."""
        return self._network.period_of(self.finalized.beacon.slot)

    @property
    def known_period(self) -> int:
        """The last period whose sync committee is known."""
        return self.period + (self.next_sync_committee is not None)

    def process(self, update: LightClientUpdate, current_slot: int) -> Refusal | None:
        """Take an update if it is valid at a slot of the local clock; returns why not.

        One that would move nothing is not looked at further."""
        has_news = update.attested_header.beacon.slot > self.optimistic.beacon.slot or self._finalizes(update)
        if not has_news:
            return Refusal.NOT_RELEVANT
        refusal = self._validate(update, current_slot)
        if refusal is not None:
            return refusal
        participants = update.sync_aggregate.participants
        attested = update.attested_header
        # Half of the committee makes no head, as at the start nothing is known [LCP8].
        is_enough = participants > self._network.preset.sync_committee_size // 2
        if is_enough and attested.beacon.slot > self.optimistic.beacon.slot:
            self.optimistic = attested
            self.participants = participants
        if update.sync_aggregate.has_supermajority and self._finalizes(update):
            self._apply(update)
        return None

    def _finalizes(self, update: LightClientUpdate) -> bool:
        """Whether an update moves the finalized header, or brings the committee that is missing."""
        if update.finalized_slot > self.finalized.beacon.slot:
            return True
        is_same_period = self._period(update.finalized_slot) == self._period(update.attested_header.beacon.slot)
        return self.next_sync_committee is None and update.has_committee and update.has_finality and is_same_period

    def _apply(self, update: LightClientUpdate) -> None:
        period = self._period(update.finalized_slot)
        if self.next_sync_committee is None:
            # Two periods at once cannot be: the signature would be by a committee that is not known.
            assert period == self.period
            self.next_sync_committee = update.next_sync_committee
        elif period == self.period + 1:
            self.current_sync_committee, self.next_sync_committee = self.next_sync_committee, update.next_sync_committee
        if update.finalized_header is not None and update.finalized_slot > self.finalized.beacon.slot:
            self.finalized = update.finalized_header
            if update.finalized_slot > self.optimistic.beacon.slot:
                self.optimistic = update.finalized_header

    def _validate(self, update: LightClientUpdate, current_slot: int) -> Refusal | None:
        """Check in the order of the specs [LCP7]."""
        attested = update.attested_header.beacon
        if update.sync_aggregate.participants == 0:
            return Refusal.NO_PARTICIPANTS
        if not update.attested_header.is_valid(self._network):
            return Refusal.HEADER
        if not update.signature_slot > attested.slot >= update.finalized_slot:
            return Refusal.SLOTS
        if update.signature_slot > current_slot:
            return Refusal.FUTURE
        if (committee := self._signers(update.signature_slot)) is None:
            return Refusal.PERIOD
        brings_committee = self.next_sync_committee is None and update.has_committee
        if attested.slot <= self.finalized.beacon.slot and not (
            brings_committee and self._period(attested.slot) == self.period
        ):
            return Refusal.NOT_RELEVANT
        return self._validate_finality(update) or self._validate_committee(update) or self._verify(update, committee)

    def _signers(self, signature_slot: int) -> SyncCommittee | None:
        """Return the committee that signs in a slot, if it is known."""
        ahead = self._period(signature_slot) - self.period
        return {0: self.current_sync_committee, 1: self.next_sync_committee}.get(ahead)

    def _validate_finality(self, update: LightClientUpdate) -> Refusal | None:
        header = update.finalized_header
        if not update.has_finality:
            return None if header is None else Refusal.FINALITY
        if header is not None and header.beacon.slot == 0:
            return Refusal.FINALITY
        if header is not None and not header.is_valid(self._network):
            return Refusal.HEADER
        # The state names no root for the genesis block.
        leaf = ZERO_ROOT if header is None else header.beacon.root
        attested = update.attested_header.beacon
        index = self._network.fork_at(attested.slot).indices.finalized_root
        return None if is_valid_branch(leaf, update.finality_branch, index, attested.state_root) else Refusal.FINALITY

    def _validate_committee(self, update: LightClientUpdate) -> Refusal | None:
        committee, attested = update.next_sync_committee, update.attested_header.beacon
        if committee is None or not update.has_committee:
            return None if committee is None and not update.has_committee else Refusal.COMMITTEE
        known = self.next_sync_committee
        if known is not None and self._period(attested.slot) == self.period and committee.root != known.root:
            return Refusal.OTHER_COMMITTEE
        index = self._network.fork_at(attested.slot).indices.next_sync_committee
        is_proven = is_valid_branch(committee.root, update.next_sync_committee_branch, index, attested.state_root)
        return None if is_proven else Refusal.COMMITTEE

    def _verify(self, update: LightClientUpdate, committee: SyncCommittee) -> Refusal | None:
        domain = self._network.signature_domain(update.signature_slot)
        root = compute_signing_root(update.attested_header.beacon.root, domain)
        aggregate = update.sync_aggregate
        try:
            keys = [key for key, bit in zip(self._points(committee), aggregate.bits, strict=True) if bit]
        except ValueError:
            return Refusal.SIGNATURE
        return None if fast_aggregate_verify(keys, root, aggregate.signature) else Refusal.SIGNATURE

    def _points(self, committee: SyncCommittee) -> Sequence[G1Point]:
        """Return the keys of a committee, decoded once. Raises ValueError."""
        points = self._keys.get(committee.root)
        if points is None:
            points = public_keys(committee.pubkeys)
            # The one before is not asked for again.
            self._keys = {root: keys for root, keys in self._keys.items() if root == self.current_sync_committee.root}
            self._keys[committee.root] = points
        return points

    def _period(self, slot: int) -> int:
        return self._network.period_of(slot)


def check_bootstrap(bootstrap: LightClientBootstrap, root: Root, network: BeaconNetwork) -> Refusal | None:
    """Return why a bootstrap is not that of a trusted block root; nothing else of it is trusted [LCP6]."""
    header = bootstrap.header
    if header.beacon.root != root:
        return Refusal.OTHER_ROOT
    if not header.is_valid(network):
        return Refusal.HEADER
    index = network.fork_at(header.beacon.slot).indices.current_sync_committee
    branch, committee = bootstrap.current_sync_committee_branch, bootstrap.current_sync_committee.root
    return None if is_valid_branch(committee, branch, index, header.beacon.state_root) else Refusal.COMMITTEE


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
        period = self.network.period_of(self.network.slot_at(now))
        return self.store is not None and period <= self.store.known_period

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
        if store.next_sync_committee is None and _is_due(slot, self._committee_asked, interval):
            result.append(self.updates(now))
            self._committee_asked = slot
        return result

    def updates(self, now: float) -> Request:
        """Return the request for the first periods whose next committee is not known; only with a store."""
        assert self.store is not None
        start = self.store.known_period
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


def _is_due(slot: int, last: int | None, interval: int) -> bool:
    """Whether it is `interval` slots since the last time, or that is ahead, as the clock was set back."""
    return last is None or not last <= slot < last + max(1, interval)
