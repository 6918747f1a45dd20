"""Promises: a peer that announces a message must send it in time once it is requested.

Of the ids requested at once a random one is tracked, which bounds memory."""

from collections import Counter
from collections.abc import Mapping

from rollup_node.stages.p2p.gossipsub.message import MessageId
from rollup_node.stages.p2p.identity.peer_id import PeerId


class GossipPromises:
    """The tracked ids with each peer's deadline; `seconds` is the time a peer has."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadlines: dict[MessageId, dict[PeerId, float]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._deadlines.values()))

    def add(self, peer: PeerId, message_id: MessageId, now: float) -> None:
        """Tracks a request to a peer; an earlier deadline for the same id stays."""
        self._deadlines.setdefault(message_id, {}).setdefault(peer, now + self._seconds)

    def fulfill(self, message_id: MessageId) -> None:
        """Fulfill all promises of a message that has arrived, from whichever peer."""
        self._deadlines.pop(message_id, None)

    def broken(self, now: float) -> Mapping[PeerId, int]:
        """Return the number of promises that each peer has broken since the last call."""
        found: Counter[PeerId] = Counter()
        for message_id, deadlines in list(self._deadlines.items()):
            late = [peer for peer, deadline in deadlines.items() if deadline < now]
            found.update(late)
            for peer in late:
                del deadlines[peer]
            if not deadlines:
                del self._deadlines[message_id]
        return found
