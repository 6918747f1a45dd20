"""Lazy gossip: telling peers outside of the mesh what there is (IHAVE), asking for what one lacks (IWANT), and
answering such asks, each bounded per peer and heartbeat."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from rollup_node.stages.p2p.gossipsub.message import MessageId
from rollup_node.stages.p2p.gossipsub.message_cache import CachedMessage, MessageCache
from rollup_node.stages.p2p.gossipsub.params import GossipParams
from rollup_node.stages.p2p.gossipsub.peers import PeerTable, RandomSource
from rollup_node.stages.p2p.gossipsub.promises import GossipPromises
from rollup_node.stages.p2p.gossipsub.rpc import IHave
from rollup_node.stages.p2p.identity.peer_id import PeerId


class PeerIHave(NamedTuple):
    """An IHAVE to send."""

    peer: PeerId
    have: IHave


class LazyGossip:
    """The message cache with the asks on both sides."""

    def __init__(self, params: GossipParams, peers: PeerTable, random: RandomSource) -> None:
        self._params = params
        self._peers = peers
        self._random = random
        self.cache = MessageCache(params.history_length, params.history_gossip)
        self.promises = GossipPromises(params.iwant_followup)

    def wants(
        self, peer: PeerId, haves: Sequence[IHave], lacks: Callable[[str, MessageId], bool], now: float
    ) -> list[MessageId]:
        """The ids to ask a peer for after its IHAVE; `lacks` says whether a topic's message is of interest. One of
        them becomes a promise."""
        state = self._peers.all[peer]
        state.ihaves += 1
        room = self._params.ihave_length - state.asked
        if state.ihaves > self._params.ihave_messages or room <= 0:
            return []
        length = self._params.ihave_length
        wanted = list(dict.fromkeys(each for have in haves for each in have.ids[:length] if lacks(have.topic, each)))
        if not wanted:
            return []
        self._random.shuffle(wanted)
        wanted = wanted[:room]
        state.asked += len(wanted)
        self.promises.add(peer, wanted[self._random.randrange(len(wanted))], now)
        return wanted

    def answers(self, peer: PeerId, ids: Sequence[MessageId]) -> Iterator[CachedMessage]:
        """The messages that a peer asks for and has not been given too often."""
        for message_id in dict.fromkeys(ids):
            found = self.cache.ask(message_id, peer)
            if found is not None and found[1] <= self._params.retransmissions:
                yield found[0]

    def tell(self, topic: str, members: Collection[PeerId], fits: Callable[[PeerId], bool]) -> list[PeerIHave]:
        """Whom to tell of what in a topic: some peers outside of the mesh that fit."""
        ids = self.cache.told(topic)
        if not ids:
            return []
        peers = list(self._peers.mesh_candidates(topic, lambda peer: peer not in members and fits(peer)))
        self._random.shuffle(peers)
        count = max(self._params.d_lazy, int(self._params.gossip_factor * len(peers)))
        return [PeerIHave(peer, IHave(topic, self._some(ids))) for peer in peers[:count]]

    def _some(self, ids: list[MessageId]) -> Sequence[MessageId]:
        """The ids in an order of chance, no more than an IHAVE may have."""
        self._random.shuffle(ids)
        return ids[: self._params.ihave_length]
