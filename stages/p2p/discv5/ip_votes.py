"""Prediction of our external address: each PONG has the address at which its sender sees us.

Each network has one vote, and only a clear majority of enough recent votes counts [DSC4]."""

from collections import Counter, OrderedDict

from rollup_node.stages.p2p.addresses.ip import is_plausible_ip, network_prefix
from rollup_node.stages.p2p.discv5.crypto import NodeId
from rollup_node.stages.p2p.discv5.enr import Endpoint

VOTE_SECONDS = 300.0
MIN_VOTES = 10
_MAX_VOTES = 200


class IpVotes:
    """The votes of the last minutes."""

    def __init__(self) -> None:
        self._votes: OrderedDict[bytes, tuple[Endpoint, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._votes)

    def add(self, voter: NodeId, voter_at: Endpoint, seen: Endpoint, now: float) -> None:
        """Add the vote of a node at `voter_at` that sees us at `seen`."""
        if not seen.port or not is_plausible_ip(seen.ip, voter_at.ip):
            return
        key = network_prefix(voter_at.ip) or voter
        self._votes.pop(key, None)
        self._votes[key] = (seen, now)
        while len(self._votes) > _MAX_VOTES:
            self._votes.popitem(last=False)

    def winner(self, now: float) -> Endpoint | None:
        """Return the address with more than half of the recent votes, None while there are too few or is none."""
        while self._votes and next(iter(self._votes.values()))[1] <= now - VOTE_SECONDS:
            self._votes.popitem(last=False)
        if len(self._votes) < MIN_VOTES:
            return None
        ((address, count),) = Counter(seen for seen, _ in self._votes.values()).most_common(1)
        return address if 2 * count > len(self._votes) else None
