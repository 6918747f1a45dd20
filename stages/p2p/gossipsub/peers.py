"""The router's state of each peer with a gossip stream, and the topics that peers have joined."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import StrEnum
from typing import Protocol

from rollup_node.stages.p2p.addresses.peer_id import PeerId
from rollup_node.stages.p2p.gossipsub import params as gossip_params
from rollup_node.stages.p2p.gossipsub.rpc import Prune, Rpc, encode_frame

MessageId = bytes


class TraceEvent(StrEnum):
    """The label `type` of the metric `p2p_gossip_events_total`; no topic is left."""

    ADD_PEER = "ADD_PEER"
    REMOVE_PEER = "REMOVE_PEER"
    JOIN = "JOIN"
    LEAVE = "LEAVE"
    GRAFT = "GRAFT"
    PRUNE = "PRUNE"
    PUBLISH_MESSAGE = "PUBLISH_MESSAGE"
    DELIVER_MESSAGE = "DELIVER_MESSAGE"
    DUPLICATE_MESSAGE = "DUPLICATE_MESSAGE"
    REJECT_MESSAGE = "REJECT_MESSAGE"
    RECV_RPC = "RECV_RPC"
    SEND_RPC = "SEND_RPC"
    DROP_RPC = "DROP_RPC"


class RandomSource(Protocol):
    """The part of `random.Random` that is used, seeded by the caller of the router."""

    def shuffle(self, items: list[PeerId], /) -> None: ...
    def randrange(self, end: int, /) -> int: ...


class GossipPeer:
    """One peer.

    Counters are reset at each heartbeat; `unwanted` holds the ids of its IDONTWANT with the heartbeats left to
    remember them; `pending_grafts` and `pending_prunes`, by topic, found no room in the queue."""

    def __init__(self, protocol: str, outbound: bool, params: gossip_params.GossipParams) -> None:
        self.protocol, self.outbound = protocol, outbound
        self.rpc_queue = RpcQueue(params.outbound_queue_size, gossip_params.MAX_QUEUED_BYTES)
        self.ihave_count = self.iwant_id_count = self.idontwant_count = 0
        self.unwanted: dict[MessageId, int] = {}
        self.wasted_bytes_budget = params.wasted_bytes_budget
        self.pending_grafts: dict[str, None] = {}
        self.pending_prunes: dict[str, Prune] = {}

    @property
    def supports_mesh(self) -> bool:
        """Whether the peer keeps meshes; a floodsub peer is sent everything."""
        return self.protocol != gossip_params.FLOODSUB

    @property
    def supports_backoff(self) -> bool:
        """Whether a PRUNE to the peer may carry a backoff (v1.1)."""
        return self.protocol in (gossip_params.MESHSUB_11, gossip_params.MESHSUB_12)

    @property
    def supports_idontwant(self) -> bool:
        """Whether IDONTWANT may be sent to the peer (v1.2)."""
        return self.protocol == gossip_params.MESHSUB_12

    def handle_idontwant(self, ids: Iterable[MessageId], params: gossip_params.GossipParams) -> None:
        """Store the ids of an IDONTWANT, up to a number per heartbeat."""
        for message in ids:
            if self.idontwant_count >= params.max_idontwant_messages:
                return
            self.idontwant_count += 1
            self.unwanted[message] = params.idontwant_message_ttl

    def start_heartbeat(self, params: gossip_params.GossipParams) -> None:
        """Reset the counters and refills the wasted-bytes budget."""
        self.ihave_count = self.iwant_id_count = self.idontwant_count = 0
        self.wasted_bytes_budget = min(
            params.wasted_bytes_budget, self.wasted_bytes_budget + params.wasted_bytes_refill
        )
        if self.unwanted:
            self.unwanted = {item: left - 1 for item, left in self.unwanted.items() if left > 1}


class PeerTable:
    """All peers, their topics, and their outbound queues.

    `ready` are the peers for which RPCs were queued since it was last emptied. Peers are ordered by arrival, so that
    runs with one seed are equal."""

    def __init__(self, params: gossip_params.GossipParams) -> None:
        self._params = params
        self.states: dict[PeerId, GossipPeer] = {}
        self.topics: dict[str, dict[PeerId, None]] = {}
        self.event_counts: Counter[TraceEvent] = Counter()
        self.ready: dict[PeerId, None] = {}

    def topic_peers(self, topic: str) -> Collection[PeerId]:
        return self.topics.get(topic, {}).keys()

    def remove(self, peer: PeerId) -> None:
        del self.states[peer]
        self.ready.pop(peer, None)
        for peers in self.topics.values():
            peers.pop(peer, None)

    def mesh_candidates(self, topic: str, fits: Callable[[PeerId], bool]) -> Iterator[PeerId]:
        """Peers of a topic that keep meshes and fit."""
        return (peer for peer in self.topic_peers(topic) if self.states[peer].supports_mesh and fits(peer))

    def send(self, peer: PeerId, rpc: Rpc) -> bool:
        """Queue an RPC for a peer, its GRAFT and PRUNE for the next heartbeat if there is no room; return whether."""
        if self.send_frame(peer, encode_frame(rpc)):
            return True
        self.states[peer].pending_grafts |= dict.fromkeys(rpc.control.graft)
        self.states[peer].pending_prunes |= {prune.topic: prune for prune in rpc.control.prune}
        return False

    def send_frame(self, peer: PeerId, frame: bytes, urgent: bool = False) -> bool:
        """Queue a whole frame for a peer; False when it is too large or there is no room."""
        sent = len(frame) <= gossip_params.MAX_RPC_BYTES and self.states[peer].rpc_queue.push(frame, urgent)
        self.event_counts[TraceEvent.SEND_RPC if sent else TraceEvent.DROP_RPC] += 1
        if sent:
            self.ready[peer] = None
        return sent


class RpcQueue:
    """A queue that rejects frames when it is full."""

    def __init__(self, max_frames: int, max_bytes: int) -> None:
        self._max_frames, self._max_bytes = max_frames, max_bytes
        self._urgent: deque[bytes] = deque()
        self._normal: deque[bytes] = deque()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._urgent) + len(self._normal)

    def push(self, frame: bytes, urgent: bool = False) -> bool:
        """Queue a frame; False when there is no room."""
        if len(self) >= self._max_frames or self.bytes + len(frame) > self._max_bytes:
            return False
        (self._urgent if urgent else self._normal).append(frame)
        self.bytes += len(frame)
        return True

    def pop(self) -> bytes | None:
        """Return the next frame to write; None when the queue is empty."""
        queue = self._urgent or self._normal
        if not queue:
            return None
        frame = queue.popleft()
        self.bytes -= len(frame)
        return frame
