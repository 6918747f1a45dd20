"""Lazy gossip: announces cached messages outside of the mesh (IHAVE), requests (IWANT) and answers, all bounded."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from rollup_node.stages.p2p.addresses.peer_id import PeerId
from rollup_node.stages.p2p.gossipsub.params import GossipParams
from rollup_node.stages.p2p.gossipsub.peers import MessageId, PeerTable, RandomSource
from rollup_node.stages.p2p.gossipsub.rpc import IHave


class CachedMessage(NamedTuple):
    """A message ready to be sent; `frame` is it as one whole RPC, shared by all queues that hold it."""

    topic: str
    frame: bytes


class MessageCache:
    """A sliding window of `history` heartbeats; ids of the last `gossip` of them are announced."""

    def __init__(self, history: int, gossip: int) -> None:
        self._windows: list[list[MessageId]] = [[] for _ in range(history)]
        self._gossip = gossip
        self._messages: dict[MessageId, CachedMessage] = {}
        self._sent: dict[MessageId, dict[PeerId, int]] = {}

    def put(self, message_id: MessageId, message: CachedMessage) -> None:
        """Add a message to the newest window."""
        if message_id not in self._messages:
            self._windows[0].append(message_id)
        self._messages[message_id] = message

    def get_for_peer(self, message_id: MessageId, peer: PeerId) -> tuple[CachedMessage, int] | None:
        """Return a message that a peer requests, and how often it has requested it; None when it is not cached."""
        message = self._messages.get(message_id)
        if message is None:
            return None
        counts = self._sent.setdefault(message_id, {})
        counts[peer] = counts.get(peer, 0) + 1
        return message, counts[peer]

    def gossip_ids(self, topic: str) -> list[MessageId]:
        """Return the ids to announce in a topic."""
        newest = (item for window in self._windows[: self._gossip] for item in window)
        return [item for item in newest if self._messages[item].topic == topic]

    def shift(self) -> None:
        """Start a new window and drop the oldest."""
        for message_id in self._windows.pop():
            del self._messages[message_id]
            self._sent.pop(message_id, None)
        self._windows.insert(0, [])


class LazyGossip:
    """The message cache, and the promises of peers that we requested messages from."""

    def __init__(self, params: GossipParams, peers: PeerTable, random: RandomSource) -> None:
        self._params, self._peers, self._random = params, peers, random
        self.cache = MessageCache(params.history_length, params.history_gossip)
        self.promises = GossipPromises(params.iwant_followup_time)

    def handle_ihave(
        self, peer: PeerId, ihaves: Sequence[IHave], lacks: Callable[[str, MessageId], bool], now: float
    ) -> list[MessageId]:
        """Return the ids that a peer has and this node `lacks`; one of them, picked at random, becomes a promise."""
        state = self._peers.states[peer]
        state.ihave_count += 1
        room = self._params.max_ihave_length - state.iwant_id_count
        if state.ihave_count > self._params.max_ihave_messages or room <= 0:
            return []
        length = self._params.max_ihave_length
        wanted = list(dict.fromkeys(id_ for ihave in ihaves for id_ in ihave.ids[:length] if lacks(ihave.topic, id_)))
        if not wanted:
            return []
        self._random.shuffle(wanted)
        wanted = wanted[:room]
        state.iwant_id_count += len(wanted)
        self.promises.add(peer, wanted[self._random.randrange(len(wanted))], now)
        return wanted

    def handle_iwant(self, peer: PeerId, ids: Sequence[MessageId]) -> Iterator[CachedMessage]:
        """Yield the cached messages that a peer requests, without those it has requested too often."""
        for message_id in dict.fromkeys(ids):
            for_peer = self.cache.get_for_peer(message_id, peer)
            if for_peer is not None and for_peer[1] <= self._params.gossip_retransmission:
                yield for_peer[0]

    def emit_gossip(
        self, topic: str, members: Collection[PeerId], fits: Callable[[PeerId], bool]
    ) -> list[tuple[PeerId, IHave]]:
        """Return the IHAVE messages of a heartbeat for a topic: to some peers outside of its mesh that fit."""
        ids = self.cache.gossip_ids(topic)
        if not ids:
            return []
        peers = list(self._peers.mesh_candidates(topic, lambda peer: peer not in members and fits(peer)))
        self._random.shuffle(peers)
        count = max(self._params.d_lazy, int(self._params.gossip_factor * len(peers)))
        return [(peer, IHave(topic, self._sample_ids(ids))) for peer in peers[:count]]

    def _sample_ids(self, ids: list[MessageId]) -> Sequence[MessageId]:
        """Return the ids in random order, at most as many as an IHAVE may have."""
        self._random.shuffle(ids)
        return ids[: self._params.max_ihave_length]


class GossipPromises:
    """The tracked ids with each peer's deadline; `seconds` is the time a peer has."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadlines: dict[MessageId, dict[PeerId, float]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._deadlines.values()))

    def add(self, peer: PeerId, message_id: MessageId, now: float) -> None:
        """Track a request to a peer; an earlier deadline for the same id stays."""
        self._deadlines.setdefault(message_id, {}).setdefault(peer, now + self._seconds)

    def fulfill(self, message_id: MessageId) -> None:
        """Fulfill all promises of a message that has arrived, from whichever peer."""
        self._deadlines.pop(message_id, None)

    def broken(self, now: float) -> Mapping[PeerId, int]:
        """Return the number of promises that each peer has broken since the last call."""
        counter: Counter[PeerId] = Counter()
        for message_id, deadlines in list(self._deadlines.items()):
            late = [peer for peer, deadline in deadlines.items() if deadline < now]
            counter.update(late)
            for peer in late:
                del deadlines[peer]
            if not deadlines:
                del self._deadlines[message_id]
        return counter
