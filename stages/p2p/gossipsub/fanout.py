"""Fanout: the peers that we publish to in topics we have not joined, kept while we go on publishing."""

from collections.abc import Callable, Collection

from rollup_node.stages.p2p.gossipsub.mesh import Meshes
from rollup_node.stages.p2p.gossipsub.params import GossipParams
from rollup_node.stages.p2p.gossipsub.peers import PeerTable
from rollup_node.stages.p2p.identity.peer_id import PeerId


class Fanout:
    """Fanout peers by topic, and when each topic was last published to."""

    def __init__(self, params: GossipParams, peers: PeerTable, meshes: Meshes) -> None:
        self._params = params
        self._peers = peers
        self._meshes = meshes
        self.members: dict[str, dict[PeerId, None]] = {}
        self._published_at: dict[str, float] = {}

    def peers_for(self, topic: str, fits: Callable[[PeerId], bool], now: float) -> Collection[PeerId]:
        """Return the peers to send a message to in a topic that we have not joined."""
        self._published_at[topic] = now
        members = self.members.setdefault(topic, {})
        if not members:
            members.update(dict.fromkeys(self._meshes.select_peers(topic, self._params.d, fits)))
        return members.keys()

    def remove_topic(self, topic: str) -> list[PeerId]:
        """End the fanout of a topic that is being joined; returns its peers."""
        self._published_at.pop(topic, None)
        return list(self.members.pop(topic, ()))

    def remove_peer(self, peer: PeerId) -> None:
        """Remove a disconnected peer."""
        for members in self.members.values():
            members.pop(peer, None)

    def heartbeat(self, fits: Callable[[PeerId], bool], now: float) -> None:
        """End topics not published to within the fanout TTL and replaces peers that left or do not fit."""
        for topic, published_at in list(self._published_at.items()):
            if published_at + self._params.fanout_ttl < now:
                self.remove_topic(topic)
        for topic, members in self.members.items():
            subscribed = self._peers.topic_peers(topic)
            for peer in [peer for peer in members if peer not in subscribed or not fits(peer)]:
                del members[peer]
            more = self._meshes.select_peers(topic, self._params.d - len(members), fits, members)
            members.update(dict.fromkeys(more))
