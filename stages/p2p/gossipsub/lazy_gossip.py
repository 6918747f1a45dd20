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
    ihave: IHave


class LazyGossip:
    """The message cache with the asks on both sides."""

    def __init__(self, params: GossipParams, peers: PeerTable, random: RandomSource) -> None:
        self._params = params
        self._peers = peers
        self._random = random
        self.cache = MessageCache(params.history_length, params.history_gossip)
        self.promises = GossipPromises(params.iwant_followup_time)

    def handle_ihave(
        self, peer: PeerId, haves: Sequence[IHave], lacks: Callable[[str, MessageId], bool], now: float
    ) -> list[MessageId]:
        """The ids to ask a peer for after its IHAVE; `lacks` says whether a topic's message is of interest. One of
        them becomes a promise."""
        state = self._peers.states[peer]
        state.ihave_count += 1
        room = self._params.max_ihave_length - state.iwant_id_count
        if state.ihave_count > self._params.max_ihave_messages or room <= 0:
            return []
        length = self._params.max_ihave_length
        wanted = list(dict.fromkeys(each for have in haves for each in have.ids[:length] if lacks(have.topic, each)))
        if not wanted:
            return []
        self._random.shuffle(wanted)
        wanted = wanted[:room]
        state.iwant_id_count += len(wanted)
        self.promises.add(peer, wanted[self._random.randrange(len(wanted))], now)
        return wanted

    def handle_iwant(self, peer: PeerId, ids: Sequence[MessageId]) -> Iterator[CachedMessage]:
        """The messages that a peer asks for and has not been given too often."""
        for message_id in dict.fromkeys(ids):
            found = self.cache.get_for_peer(message_id, peer)
            if found is not None and found[1] <= self._params.gossip_retransmission:
                yield found[0]

    def emit_gossip(self, topic: str, members: Collection[PeerId], fits: Callable[[PeerId], bool]) -> list[PeerIHave]:
        """Whom to tell of what in a topic: some peers outside of the mesh that fit."""
        ids = self.cache.gossip_ids(topic)
        if not ids:
            return []
        peers = list(self._peers.mesh_candidates(topic, lambda peer: peer not in members and fits(peer)))
        self._random.shuffle(peers)
        count = max(self._params.d_lazy, int(self._params.gossip_factor * len(peers)))
        return [PeerIHave(peer, IHave(topic, self._sample_ids(ids))) for peer in peers[:count]]

    def _sample_ids(self, ids: list[MessageId]) -> Sequence[MessageId]:
        """The ids in an order of chance, no more than an IHAVE may have."""
        self._random.shuffle(ids)
        return ids[: self._params.max_ihave_length]
