"""Gossip routers under test: one among peers played by the test, or many in a made-up network."""

import heapq
import random
from collections.abc import Iterable

from rollup_node.stages.p2p.config import PeerScoring
from rollup_node.stages.p2p.encoding import snappy, varint
from rollup_node.stages.p2p.gossipsub.message import (
    MessageId,
    MessageIdScheme,
    UnvalidatedMessage,
    ValidationResult,
    message_id,
)
from rollup_node.stages.p2p.gossipsub.params import MESHSUB_12, GossipParams
from rollup_node.stages.p2p.gossipsub.router import GossipSubRouter, MalformedRpc
from rollup_node.stages.p2p.gossipsub.rpc import (
    ControlMessage,
    Prune,
    PubsubMessage,
    Rpc,
    Subscription,
    decode_rpc,
    encode_rpc,
)
from rollup_node.stages.p2p.scoring.peer_score import PeerScorer, peer_scorer

TOPIC = "/optimism/901/3/blocks"
OTHER_TOPIC = "/optimism/901/2/blocks"
TOPICS = (TOPIC, OTHER_TOPIC)


def packed(content: bytes) -> bytes:
    """Content as it is published."""
    return snappy.compress(content)


def id_of(content: bytes, topic: str = TOPIC) -> MessageId:
    """The id of a message with that content."""
    return message_id(MessageIdScheme.OP_NODE, topic, packed(content), content)


def read_frames(frames: Iterable[bytes]) -> list[Rpc]:
    """What frames say."""
    found = []
    for frame in frames:
        length = varint.decode(frame)
        assert length is not None and len(frame) == sum(length)
        found.append(decode_rpc(frame[length[1] :]))
    return found


class Said:
    """All that the router said to a peer, added up."""

    def __init__(self, rpcs: list[Rpc]) -> None:
        controls = [rpc.control for rpc in rpcs]
        self.rpcs = rpcs
        self.subscriptions = [each for rpc in rpcs for each in rpc.subscriptions]
        self.messages: list[PubsubMessage] = [each for rpc in rpcs for each in rpc.messages]
        self.ihave = [each for control in controls for each in control.ihave]
        self.iwant = [each for control in controls for each in control.iwant]
        self.graft = [each for control in controls for each in control.graft]
        self.prune: list[Prune] = [each for control in controls for each in control.prune]
        self.idontwant = [each for control in controls for each in control.idontwant]


class World:
    """One router and the peers of a test. Time stands still unless it is moved."""

    def __init__(
        self, params: GossipParams | None = None, scoring: PeerScoring = PeerScoring.LIGHT, seed: int = 1
    ) -> None:
        self.now = 1000.0
        self.scores: PeerScorer = peer_scorer(scoring, 2)
        self.router = GossipSubRouter(params or GossipParams(), TOPICS, self.scores, random.Random(seed))
        self.router.join(TOPIC)

    def add(
        self, name: str, protocol: str = MESHSUB_12, outbound: bool = False, joins: bool = True, ip: str = ""
    ) -> bytes:
        """A peer that has joined the topic, if nothing else is said; what is said to it by then is dropped."""
        peer = name.encode()
        self.router.add_peer(peer, protocol, outbound, [ip or f"10.0.0.{name}"])
        if joins:
            self.tell(peer, Rpc(subscriptions=[Subscription(TOPIC, True)]))
        self.said(peer)
        return peer

    def add_many(self, count: int, **how: object) -> list[bytes]:
        """Several such peers, each at an address of its own."""
        return [self.add(f"{number:03}", **how) for number in range(count)]  # type: ignore[arg-type]

    def add_members(self, count: int, **how: object) -> list[bytes]:
        """Several peers that are in the mesh, because they said so."""
        peers = self.add_many(count, **how)
        for peer in peers:
            self.control(peer, graft=[TOPIC])
        assert list(self.mesh) == peers
        return peers

    @property
    def mesh(self) -> list[bytes]:
        """The members of the topic's mesh."""
        return list(self.router.meshes.members[TOPIC])

    def tell(self, peer: bytes, rpc: Rpc) -> list[UnvalidatedMessage]:
        """The peer says something well-formed; what of it is to be judged."""
        found = self.router.receive_rpc(peer, encode_rpc(rpc), self.now)
        assert not isinstance(found, MalformedRpc)
        return found

    def control(self, peer: bytes, **parts: object) -> None:
        """The peer says something that holds no message."""
        assert self.tell(peer, Rpc(control=ControlMessage(**parts))) == []  # type: ignore[arg-type]

    def message(self, peer: bytes, content: bytes, topic: str = TOPIC) -> list[UnvalidatedMessage]:
        """The peer sends a message."""
        return self.tell(peer, Rpc(messages=[PubsubMessage(topic, packed(content))]))

    def accept(self, peer: bytes, content: bytes) -> int:
        """The peer sends a message that is accepted; to how many it goes on."""
        (incoming,) = self.message(peer, content)
        return self.router.report_validation_result(incoming.id, ValidationResult.ACCEPT, self.now)

    def said(self, peer: bytes) -> Said:
        """What was said to a peer since the last call."""
        frames = []
        while (frame := self.router.next_frame(peer)) is not None:
            frames.append(frame)
        return Said(read_frames(frames))

    def beat(self, count: int = 1) -> None:
        """Heartbeats, half a second apart."""
        for _ in range(count):
            self.now += 0.5
            self.router.heartbeat(self.now)


class Network:
    """Many routers with links between them that delay and lose messages."""

    def __init__(
        self, count: int, links: int, seed: int, loss: float, delay: tuple[float, float] = (0.01, 0.1)
    ) -> None:
        self.chance = random.Random(seed)
        self.now = 0.0
        self.loss = 0.0
        self.delay = delay
        self.names = [number.to_bytes(4, "big") for number in range(count)]
        self.routers = {name: self._router(name, seed) for name in self.names}
        self.arrived: dict[MessageId, dict[bytes, float]] = {}
        self.cut: set[bytes] = set()
        self._events: list[tuple[float, int, str, bytes, bytes, bytes]] = []
        self._count = 0
        for name in self.names:
            self._at(self.chance.random() * 0.5, "beat", name)
        for one, other in self._pairs(links):
            self.connect(one, other)
        self.run_until(0.4)
        self.loss = loss

    def _router(self, name: bytes, seed: int) -> GossipSubRouter:
        router = GossipSubRouter(
            GossipParams(), TOPICS, peer_scorer(PeerScoring.LIGHT, 2), random.Random(f"{seed} {name.hex()}")
        )
        router.join(TOPIC)
        return router

    def _pairs(self, links: int) -> list[tuple[bytes, bytes]]:
        pairs = [(one, other) for at, one in enumerate(self.names) for other in self.names[at + 1 :]]
        self.chance.shuffle(pairs)
        return pairs[: len(self.names) * links // 2]

    def connect(self, one: bytes, other: bytes) -> None:
        """A link; the first of the two has dialled."""
        for name, peer, outbound in ((one, other, True), (other, one, False)):
            self.routers[name].add_peer(peer, MESHSUB_12, outbound, [f"10.1.{peer[2]}.{peer[3]}"])
            self._pump(name)

    def publish(self, name: bytes, content: bytes) -> MessageId:
        """A router publishes."""
        found = id_of(content)
        self.arrived[found] = {name: self.now}
        assert self.routers[name].publish(TOPIC, packed(content), self.now) is not None
        self._pump(name)
        return found

    def run_until(self, end: float) -> None:
        """Lets things happen up to a time."""
        while self._events and self._events[0][0] <= end:
            self.now, _, kind, name, source, data = heapq.heappop(self._events)
            router = self.routers[name]
            if kind == "beat":
                router.heartbeat(self.now)
                self._at(0.5, "beat", name)
            elif kind == "arrive":
                self._arrive(name, source, data)
            else:
                self.arrived[data][name] = self.now
                router.report_validation_result(data, ValidationResult.ACCEPT, self.now)
            self._pump(name)
        self.now = end

    def degrees(self) -> list[int]:
        """The sizes of all meshes."""
        return [len(router.meshes.members[TOPIC]) for router in self.routers.values()]

    def _arrive(self, name: bytes, source: bytes, frame: bytes) -> None:
        length = varint.decode(frame)
        assert length is not None
        found = self.routers[name].receive_rpc(source, frame[length[1] :], self.now)
        assert not isinstance(found, MalformedRpc)
        for incoming in found:
            self._at(0.003, "judge", name, data=incoming.id)

    def _pump(self, name: bytes) -> None:
        router = self.routers[name]
        for peer in router.take_ready():
            while (frame := router.next_frame(peer)) is not None:
                if self.chance.random() >= self.loss and not {name, peer} & self.cut:
                    self._at(self.chance.uniform(*self.delay), "arrive", peer, name, frame)

    def _at(self, seconds: float, kind: str, name: bytes, source: bytes = b"", data: bytes = b"") -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + seconds, self._count, kind, name, source, data))
