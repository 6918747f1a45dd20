"""GossipPromises: who tells of a message and is asked for it has to bring it in time. Of the ids asked for at once one is
watched, chosen by chance, so that memory stays small."""

from collections import Counter
from collections.abc import Mapping

from rollup_node.stages.p2p.gossipsub.message import MessageId
from rollup_node.stages.p2p.identity.peer_id import PeerId


class GossipPromises:
    """Watched ids with the time each peer has; `seconds` is that time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends: dict[MessageId, dict[PeerId, float]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._ends.values()))

    def add(self, peer: PeerId, message_id: MessageId, now: float) -> None:
        """The peer has been asked for the message; an earlier promise of it stays."""
        self._ends.setdefault(message_id, {}).setdefault(peer, now + self._seconds)

    def fulfill(self, message_id: MessageId) -> None:
        """Somebody has brought the message: nobody can bring it first any more."""
        self._ends.pop(message_id, None)

    def broken(self, now: float) -> Mapping[PeerId, int]:
        """How many promises each peer has broken since the last call."""
        found: Counter[PeerId] = Counter()
        for message_id, ends in list(self._ends.items()):
            late = [peer for peer, end in ends.items() if end < now]
            found.update(late)
            for peer in late:
                del ends[peer]
            if not ends:
                del self._ends[message_id]
        return found
