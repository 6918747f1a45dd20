"""A lookup: the closest known nodes are asked, three at a time, for nodes near the target until sixteen responded."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from rollup_node.stages.p2p.discv5.crypto import NodeId
from rollup_node.stages.p2p.discv5.enr import Contact, log_distance, xor_distance

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
    responded: set[NodeId] = field(default_factory=set)
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
        self.responded.add(node)
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

    @property
    def result(self) -> list[Contact]:
        """The closest nodes that responded, closest first."""
        return [contact for contact in self._by_closeness() if contact.node_id in self.responded][:RESULT_SIZE]

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
