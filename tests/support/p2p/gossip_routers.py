"""A gossip router under test, with scripted peers."""

import random
from collections.abc import Iterable

from rollup_node.stages.p2p.config import PeerScoring
from rollup_node.stages.p2p.encoding import snappy, varint
from rollup_node.stages.p2p.gossipsub.params import MESHSUB_12, GossipParams
from rollup_node.stages.p2p.gossipsub.peers import MessageId
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
from rollup_node.stages.p2p.gossipsub.validation_queue import UnvalidatedMessage, ValidationResult, message_id
from rollup_node.stages.p2p.peering.peer_score import PeerScorer

TOPIC = "/optimism/901/3/blocks"
OTHER_TOPIC = "/optimism/901/2/blocks"
"""A topic that the routers are not in."""


def compressed(content: bytes) -> bytes:
    """Content as it is published."""
    return snappy.compress(content)


def id_of(content: bytes, topic: str = TOPIC) -> MessageId:
    """Return the id of a message with that content."""
    return message_id(topic, compressed(content), content)


def read_frames(frames: Iterable[bytes]) -> list[Rpc]:
    """Decode frames."""
    result = []
    for frame in frames:
        length = varint.decode(frame)
        assert length is not None and len(frame) == sum(length)
        result.append(decode_rpc(frame[length[1] :]))
    return result


class SentRpcs:
    """The parts of all RPCs that the router sent to a peer."""

    def __init__(self, rpcs: list[Rpc]) -> None:
        controls = [rpc.control for rpc in rpcs]
        self.rpcs = rpcs
        self.subscriptions = [subscription for rpc in rpcs for subscription in rpc.subscriptions]
        self.messages: list[PubsubMessage] = [message for rpc in rpcs for message in rpc.messages]
        self.ihave = [item for control in controls for item in control.ihave]
        self.iwant = [item for control in controls for item in control.iwant]
        self.graft = [item for control in controls for item in control.graft]
        self.prune: list[Prune] = [item for control in controls for item in control.prune]
        self.idontwant = [item for control in controls for item in control.idontwant]


class RouterHarness:
    """One router whose peers are scripted by the test. Time moves only by `now` and `heartbeats`."""

    def __init__(
        self, params: GossipParams | None = None, scoring: PeerScoring = PeerScoring.LIGHT, seed: int = 1
    ) -> None:
        self.now = 1000.0
        self.scorer: PeerScorer = PeerScorer(scoring, 2)
        self.router = GossipSubRouter(params or GossipParams(), (TOPIC,), self.scorer, random.Random(seed))

    def add_peer(
        self, name: str, protocol: str = MESHSUB_12, outbound: bool = False, joins: bool = True, ip: str = ""
    ) -> bytes:
        """Add a peer, by default subscribed to the topic. What the router has sent to it by then is dropped."""
        peer = name.encode()
        self.router.add_peer(peer, protocol, outbound, [ip or f"10.0.0.{name}"])
        if joins:
            self.receive(peer, Rpc(subscriptions=[Subscription(TOPIC, True)]))
        self.sent_to(peer)
        return peer

    def add_peers(self, count: int, **options: object) -> list[bytes]:
        """Add several peers, each with its own IP address."""
        return [self.add_peer(f"{number:03}", **options) for number in range(count)]  # type: ignore[arg-type]

    def add_members(self, count: int, **options: object) -> list[bytes]:
        """Add several peers that graft us."""
        peers = self.add_peers(count, **options)
        for peer in peers:
            self.receive_control(peer, graft=[TOPIC])
        assert list(self.mesh) == peers
        return peers

    @property
    def mesh(self) -> list[bytes]:
        """The members of the topic's mesh."""
        return list(self.router.meshes.members[TOPIC])

    def receive(self, peer: bytes, rpc: Rpc) -> list[UnvalidatedMessage]:
        """Receives a well-formed RPC; returns the messages to validate."""
        result = self.router.receive_rpc(peer, encode_rpc(rpc), self.now)
        assert not isinstance(result, MalformedRpc)
        return result

    def receive_control(self, peer: bytes, **parts: object) -> None:
        """Receives a control message."""
        assert self.receive(peer, Rpc(control=ControlMessage(**parts))) == []  # type: ignore[arg-type]

    def receive_message(self, peer: bytes, content: bytes, topic: str = TOPIC) -> list[UnvalidatedMessage]:
        """Receives a message; returns it if it is to be validated."""
        return self.receive(peer, Rpc(messages=[PubsubMessage(topic, compressed(content))]))

    def accept(self, peer: bytes, content: bytes) -> int:
        """Receives a message and accepts it; returns the number of peers it is forwarded to."""
        (incoming,) = self.receive_message(peer, content)
        return self.router.report_validation_result(incoming.id, ValidationResult.ACCEPT, self.now)

    def sent_to(self, peer: bytes) -> SentRpcs:
        """Return what was sent to a peer since the last call."""
        frames = []
        while (frame := self.router.next_frame(peer)) is not None:
            frames.append(frame)
        return SentRpcs(read_frames(frames))

    def heartbeats(self, count: int = 1) -> None:
        """Heartbeats, half a second apart."""
        for _ in range(count):
            self.now += 0.5
            self.router.heartbeat(self.now)
