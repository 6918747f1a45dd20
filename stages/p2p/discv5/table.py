"""The routing table, and lookups: buckets of sixteen nodes by distance, each with a few replacements.

Only nodes that have answered at the address in their record are passed on to others [DSC11]; the number of nodes per
IP network is limited, so that one network cannot fill the table. For a
lookup the closest known nodes are asked, three at a time, for nodes near the target until sixteen responded."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rollup_node.stages.p2p.addresses.ip import network_prefix
from rollup_node.stages.p2p.addresses.peer_id import NodeId
from rollup_node.stages.p2p.discv5.enr import Contact, Enr, log_distance, xor_distance

CONCURRENCY = 3
RESULT_SIZE = 16
MAX_QUERIED = 64
_MAX_SEEN = 256
_DISTANCES = 3


@dataclass
class Lookup:
    """The state of one lookup. `own` is our node id, which is never queried."""

    target: NodeId
    own: NodeId
    seen: dict[NodeId, Contact] = field(default_factory=dict)
    queried: set[NodeId] = field(default_factory=set)
    in_flight: set[NodeId] = field(default_factory=set)
    failed: set[NodeId] = field(default_factory=set)

    def add(self, contacts: Iterable[Contact]) -> None:
        """Add nodes that were seen."""
        for contact in contacts:
            if contact.node_id != self.own:
                self.seen.setdefault(contact.node_id, contact)
        if len(self.seen) > _MAX_SEEN:
            kept = self._by_closeness()[:_MAX_SEEN]
            self.seen = {contact.node_id: contact for contact in kept}

    def next_queries(self) -> list[tuple[Contact, tuple[int, ...]]]:
        """Return the nodes to query now, once each, and the distances to ask for."""
        free = min(CONCURRENCY - len(self.in_flight), MAX_QUERIED - len(self.queried))
        unqueried = [contact for contact in self._nearest() if contact.node_id not in self.queried][: max(free, 0)]
        for contact in unqueried:
            self.queried.add(contact.node_id)
            self.in_flight.add(contact.node_id)
        return [(contact, query_distances(contact.node_id, self.target)) for contact in unqueried]

    def add_response(self, node: NodeId, contacts: Iterable[Contact]) -> None:
        self.in_flight.discard(node)
        self.add(contacts)

    def add_failure(self, node: NodeId) -> None:
        """Note that the node did not respond."""
        self.in_flight.discard(node)
        self.failed.add(node)

    @property
    def is_done(self) -> bool:
        """Whether no node is left to query or to wait for."""
        if self.in_flight:
            return False
        return len(self.queried) >= MAX_QUERIED or all(contact.node_id in self.queried for contact in self._nearest())

    def _nearest(self) -> list[Contact]:
        return [contact for contact in self._by_closeness() if contact.node_id not in self.failed][:RESULT_SIZE]

    def _by_closeness(self) -> list[Contact]:
        return sorted(self.seen.values(), key=lambda contact: xor_distance(contact.node_id, self.target))


def query_distances(node: NodeId, target: NodeId) -> tuple[int, ...]:
    """Return the distances from a node at which nodes near the target are, the target's own first."""
    middle = log_distance(node, target)
    result = [middle]
    step = 1
    while len(result) < _DISTANCES:
        result += [distance for distance in (middle + step, middle - step) if 1 <= distance <= 256]
        step += 1
    return tuple(result[:_DISTANCES])


BUCKET_SIZE = 16
REPLACEMENTS = 10
PER_NETWORK_IN_BUCKET = 2
PER_NETWORK = 10
REVALIDATION_SECONDS = 300.0
"""Interval at which a live node is pinged."""
RETRY_SECONDS = 10.0
MAX_FAILURES = 3
_MAX_CHECKS = 27


@dataclass
class NodeEntry:
    """A node in the table: `checks` grows with each answer, falls to a third with each missing one; 0 is not live."""

    record: Enr
    contact: Contact
    revalidate_at: float
    checks: int = 0
    failures: int = 0

    @property
    def is_live(self) -> bool:
        """Whether the node has responded and still does."""
        return self.checks > 0


@dataclass
class Bucket:
    """Nodes at one distance."""

    entries: dict[NodeId, NodeEntry] = field(default_factory=dict)
    replacements: dict[NodeId, NodeEntry] = field(default_factory=dict)
    networks: Counter[bytes] = field(default_factory=Counter)


class RoutingTable:
    """All buckets around our node id. `versions` are the IP versions by which nodes can be reached."""

    def __init__(self, own: NodeId, versions: tuple[int, ...]) -> None:
        self._own, self._versions = own, versions
        self.buckets: dict[int, Bucket] = {}
        self.networks: Counter[bytes] = Counter()

    def __len__(self) -> int:
        return sum(len(bucket.entries) for bucket in self.buckets.values())

    def __iter__(self) -> Iterator[NodeEntry]:
        for bucket in self.buckets.values():
            yield from bucket.entries.values()

    @property
    def live(self) -> list[NodeEntry]:
        return [entry for entry in self if entry.is_live]

    def get(self, node: NodeId) -> NodeEntry | None:
        """Return a node in the table or among the replacements."""
        bucket = self._bucket(node)
        return (bucket.entries.get(node) or bucket.replacements.get(node)) if bucket else None

    def get_member(self, node: NodeId) -> NodeEntry | None:
        """Return a node in the table itself, which is revalidated."""
        bucket = self._bucket(node)
        return bucket.entries.get(node) if bucket else None

    def add_seen_node(self, record: Enr, now: float) -> NodeEntry | None:
        """Add a node, or a newer record of one; returns its entry, None when it is not admitted."""
        known = self.get(record.node_id)
        if known is not None and record.seq <= known.record.seq:
            return known
        contact = record.contact(self._versions)
        if known is not None:
            if contact is not None and contact.endpoint == known.contact.endpoint:
                known.record, known.contact = record, contact
                return known
            self._remove(record.node_id)
        if contact is None or record.node_id == self._own:
            return None
        return self._add(NodeEntry(record, contact, revalidate_at=now))

    def record_response(self, node: NodeId, now: float, *, is_check: bool) -> None:
        """Note a response of a node at its address; `is_check` if a PONG, which also confirms its sequence number."""
        entry = self.get(node)
        if entry is not None:
            entry.checks = min(entry.checks + 1, _MAX_CHECKS)
            entry.failures = 0
            if is_check:
                entry.revalidate_at = now + REVALIDATION_SECONDS

    def record_failure(self, node: NodeId, now: float) -> NodeEntry | None:
        """Return a node has not responded; returns the entry if that removes it from the table."""
        entry = self.get(node)
        if entry is None:
            return None
        entry.checks //= 3
        entry.failures += 1
        entry.revalidate_at = now + RETRY_SECONDS * entry.failures
        if entry.checks or entry.failures < MAX_FAILURES:
            return None
        self._remove(node)
        return entry

    def next_to_revalidate(self, now: float) -> NodeEntry | None:
        """Return the node whose revalidation is due for the longest time, and not again before RETRY_SECONDS."""
        result = min(self, key=lambda entry: entry.revalidate_at, default=None)
        if result is None or result.revalidate_at > now:
            return None
        result.revalidate_at = now + RETRY_SECONDS
        return result

    def closest(self, target: NodeId, count: int) -> list[Contact]:
        """Return the nodes closest to a target that are live or not known to be dead."""
        usable = [entry.contact for entry in self if entry.is_live or not entry.failures]
        return sorted(usable, key=lambda contact: xor_distance(contact.node_id, target))[:count]

    def at_distances(self, distances: Iterable[int]) -> list[Enr]:
        """Return the records of live nodes at these distances from us."""
        buckets = [self.buckets[distance] for distance in distances if distance in self.buckets]
        return [entry.record for bucket in buckets for entry in bucket.entries.values() if entry.is_live]

    def _bucket(self, node: NodeId) -> Bucket | None:
        return self.buckets.get(log_distance(node, self._own))

    def _add(self, entry: NodeEntry) -> NodeEntry | None:
        bucket = self.buckets.setdefault(log_distance(entry.record.node_id, self._own), Bucket())
        group = network_prefix(entry.contact.endpoint.ip)
        if group is not None:
            if bucket.networks[group] >= PER_NETWORK_IN_BUCKET or self.networks[group] >= PER_NETWORK:
                return None
            bucket.networks[group] += 1
            self.networks[group] += 1
        if len(bucket.entries) < BUCKET_SIZE:
            bucket.entries[entry.record.node_id] = entry
            return entry
        if len(bucket.replacements) >= REPLACEMENTS:
            self._release_network(bucket, bucket.replacements.pop(next(iter(bucket.replacements))))
        bucket.replacements[entry.record.node_id] = entry
        return entry

    def _remove(self, node: NodeId) -> None:
        """Remove a node; the replacement that was live, or seen last, moves up."""
        bucket = self._bucket(node)
        if bucket is None:
            return
        replacement = bucket.replacements.pop(node, None)
        if replacement is not None:
            self._release_network(bucket, replacement)
            return
        entry = bucket.entries.pop(node, None)
        if entry is None:
            return
        self._release_network(bucket, entry)
        if bucket.replacements:
            best = max(reversed(bucket.replacements), key=lambda key: bucket.replacements[key].checks)
            bucket.entries[best] = bucket.replacements.pop(best)

    def _release_network(self, bucket: Bucket, entry: NodeEntry) -> None:
        group = network_prefix(entry.contact.endpoint.ip)
        if group is None:
            return
        for counter in (bucket.networks, self.networks):
            counter[group] -= 1
            if not counter[group]:
                del counter[group]
