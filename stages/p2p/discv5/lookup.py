"""A walk towards a target: of the nearest nodes heard of, three at a time are asked for nodes near the target, until
the nearest sixteen have answered. Nothing that is answered makes it ask more than a fixed number of nodes."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from rollup_node.stages.p2p.discv5.contact import Contact, NodeId, log_distance, xor_distance

CONCURRENCY = 3
RESULT_SIZE = 16
MAX_QUERIED = 64
_MAX_SEEN = 256
_DISTANCES = 3


class LookupQuery(NamedTuple):
    """Ask this node for nodes at these distances from it."""

    contact: Contact
    distances: tuple[int, ...]


@dataclass
class Lookup:
    """The state of one walk. `own` is our node id, which is never asked."""

    target: NodeId
    own: NodeId
    seen: dict[NodeId, Contact] = field(default_factory=dict)
    queried: set[NodeId] = field(default_factory=set)
    waiting: set[NodeId] = field(default_factory=set)
    answered: set[NodeId] = field(default_factory=set)
    failed: set[NodeId] = field(default_factory=set)

    def add(self, contacts: Iterable[Contact]) -> None:
        """Hears of nodes."""
        for contact in contacts:
            if contact.node_id != self.own:
                self.seen.setdefault(contact.node_id, contact)
        if len(self.seen) > _MAX_SEEN:
            kept = self._by_closeness()[:_MAX_SEEN]
            self.seen = {contact.node_id: contact for contact in kept}

    def next_queries(self) -> list[LookupQuery]:
        """Whom to ask now; each node is named once."""
        free = min(CONCURRENCY - len(self.waiting), MAX_QUERIED - len(self.queried))
        fresh = [contact for contact in self._nearest() if contact.node_id not in self.queried][: max(free, 0)]
        for contact in fresh:
            self.queried.add(contact.node_id)
            self.waiting.add(contact.node_id)
        return [LookupQuery(contact, query_distances(contact.node_id, self.target)) for contact in fresh]

    def add_answer(self, node: NodeId, found: Iterable[Contact]) -> None:
        """Takes the nodes that one has answered."""
        self.waiting.discard(node)
        self.answered.add(node)
        self.add(found)

    def add_failure(self, node: NodeId) -> None:
        """One did not answer."""
        self.waiting.discard(node)
        self.failed.add(node)

    @property
    def is_done(self) -> bool:
        """Whether nobody is left to be asked or waited for."""
        if self.waiting:
            return False
        return len(self.queried) >= MAX_QUERIED or all(contact.node_id in self.queried for contact in self._nearest())

    @property
    def result(self) -> list[Contact]:
        """The nearest nodes that answered, nearest first."""
        return [contact for contact in self._by_closeness() if contact.node_id in self.answered][:RESULT_SIZE]

    def _nearest(self) -> list[Contact]:
        return [contact for contact in self._by_closeness() if contact.node_id not in self.failed][:RESULT_SIZE]

    def _by_closeness(self) -> list[Contact]:
        return sorted(self.seen.values(), key=lambda contact: xor_distance(contact.node_id, self.target))


def query_distances(node: NodeId, target: NodeId) -> tuple[int, ...]:
    """The distances from a node at which nodes near the target are, the best first: the target's own, then those next
    to it."""
    middle = log_distance(node, target)
    found = [middle]
    step = 1
    while len(found) < _DISTANCES:
        found += [distance for distance in (middle + step, middle - step) if 1 <= distance <= 256]
        step += 1
    return tuple(found[:_DISTANCES])
