"""Hostile nodes: discovery does not fail, its memory stays bounded, it sends no more than it receives, and its
sessions with other nodes stay."""

from collections.abc import Iterable, Iterator

import pytest

from rollup_node.stages.p2p.discv5 import messages, packets, sessions
from rollup_node.stages.p2p.discv5.calls import MAX_ACTIVE_CALLS, DiscoveryPurpose, OutgoingCall, OutgoingPacket
from rollup_node.stages.p2p.discv5.enr import Endpoint, Enr
from rollup_node.stages.p2p.discv5.packet_codec import PacketCodec, PacketDrop
from rollup_node.stages.p2p.discv5.packets import MIN_PACKET_BYTES
from tests.support.p2p.discv5_nodes import (
    Discv5Simulation,
    SimulatedNode,
    contact_of,
    endpoint,
    record_of,
    seeded,
)

ONE, TWO, VICTIM = (endpoint(f"127.0.0.{number}") for number in (1, 2, 66))


class ConnectedPair:
    """Two nodes that know each other, and the codec of an attacker."""

    def __init__(self) -> None:
        self.network = Discv5Simulation()
        self.one, self.two = (
            self.network.add("one", ONE, peers_wanted=False),
            self.network.add("two", TWO, peers_wanted=False),
        )
        self.one.node.add_bootnodes([self.two.contact])
        self.network.run(3)
        assert self.one.live_ids == {self.two.record.node_id}
        self.attacker = PacketCodec(bytes([7]) * 32, seeded("attacker"))

    def sent_by(self, node: SimulatedNode, since: int) -> list[OutgoingPacket]:
        return [sending for sender, sending in self.network.log[since:] if sender == node.endpoint]

    def still_respond(self) -> bool:
        call = OutgoingCall(self.two.contact, DiscoveryPurpose.FETCH, (0,))
        assert self.one.node.calls.submit(call, 1, self.network.now)
        self.network.run(1)
        return self.two.record.node_id in call.records


@pytest.fixture
def pair() -> Iterator[ConnectedPair]:
    yield ConnectedPair()


def test_replies_to_a_forged_source_do_not_amplify(pair: ConnectedPair) -> None:
    before = len(pair.network.log)
    received = 0
    for _ in range(500):
        packet = pair.attacker.encode_random(pair.one.record.node_id).datagram
        received += len(packet)
        pair.network.inject(VICTIM, packet, ONE)
    replies = pair.sent_by(pair.one, before)
    assert replies and all(len(reply.datagram) == MIN_PACKET_BYTES for reply in replies)
    assert sum(len(reply.datagram) for reply in replies) < received / 5
    assert pair.one.node.drops[PacketDrop.TOO_MANY] + pair.one.node.drops[PacketDrop.TOO_MANY_CHALLENGES] > 400
    assert pair.still_respond()


def test_a_flood_from_everywhere_is_bounded(pair: ConnectedPair) -> None:
    node = pair.one.node
    random = seeded("flood")
    for _ in range(2_400):
        raw = random(6)
        source = PacketCodec(bytes([1 + raw[0] % 200]) * 32, random) if raw[0] < 2 else pair.attacker
        at = endpoint(f"127.{raw[1]}.{raw[2]}.{raw[3]}", 1024 + raw[4])
        pair.network.inject(at, source.encode_random(pair.one.record.node_id).datagram, ONE)
        pair.network.now += 0.0003
    assert len(node.codec.challenges) <= sessions.MAX_CHALLENGES
    assert len(node.codec.sessions) <= 2
    assert len(node._packet_limits) <= 2048
    assert pair.still_respond()


def test_a_flood_from_everywhere_does_not_keep_known_nodes_out(pair: ConnectedPair) -> None:
    for number in range(2000):
        at = endpoint(f"127.9.{number >> 8}.{number & 255}")
        pair.network.inject(at, pair.attacker.encode_random(pair.one.record.node_id).datagram, ONE)
    assert pair.one.node.drops[PacketDrop.TOO_MANY_CHALLENGES] > 1000
    pair.two.node.codec.sessions.clear()
    pair.two.node.calls.submit(OutgoingCall(pair.one.contact, DiscoveryPurpose.REVALIDATE), 1, pair.network.now)
    pair.network.run(0.2)
    assert pair.two.node.codec.sessions.newest(pair.one.record.node_id, ONE) is not None
    assert pair.still_respond()


def test_a_replayed_handshake_or_challenge_is_dropped(network: Discv5Simulation) -> None:
    network.add("one", ONE)
    two = network.add("two", TWO)
    two.node.add_bootnodes([network.nodes[ONE].contact])
    network.run(2)
    history = list(network.log)
    assert not any(node.node.drops for node in network.nodes.values())
    counts = {at: len(node.node.codec.sessions) for at, node in network.nodes.items()}
    for sender, sending in history:
        network.inject(sender, sending.datagram, sending.endpoint)
    for at, node in network.nodes.items():
        assert len(node.node.codec.sessions) == counts[at]
        assert node.node.drops[PacketDrop.UNSOLICITED] + node.node.drops[PacketDrop.BAD_HANDSHAKE] >= 1
        assert node.node.drops[PacketDrop.REPLAYED] >= 1
    repeated = network.log[len(history) :]
    assert all(len(sending.datagram) == MIN_PACKET_BYTES for _, sending in repeated)


def test_a_forged_source_cannot_end_a_session(pair: ConnectedPair) -> None:
    """Garbage and forged challenges from a known node's address leave the session as it is."""
    one, two = pair.one, pair.two
    forged = PacketCodec(bytes([8]) * 32, seeded("forger"))
    forged.node_id = two.record.node_id
    for number in range(50):
        pair.network.inject(TWO, forged.encode_random(one.record.node_id).datagram, ONE)
        nonce = number.to_bytes(12, "big")
        fake = packets.whoareyou_header(one.record.node_id, nonce, bytes(16), 0, bytes(16))
        pair.network.inject(TWO, fake.packet(), ONE)
    session = one.node.codec.sessions.newest(two.record.node_id, TWO)
    assert pair.still_respond()
    assert one.node.codec.sessions.newest(two.record.node_id, TWO) is session


def test_forged_random_packets_do_not_prevent_a_handshake(network: Discv5Simulation) -> None:
    one, two = network.add("one", ONE, peers_wanted=False), network.add("two", TWO, peers_wanted=False)
    forged = PacketCodec(bytes([8]) * 32, seeded("forger"))
    forged.node_id = two.record.node_id

    def race(sender: Endpoint, sending: OutgoingPacket) -> OutgoingPacket:
        if sender == TWO:
            one.node.receive_datagram(forged.encode_random(one.record.node_id).datagram, TWO, network.now)
        return sending

    network.filter = race
    two.node.add_bootnodes([one.contact])
    network.run(2)
    assert two.live_ids == {one.record.node_id}


def test_a_node_cannot_impersonate_another(pair: ConnectedPair) -> None:
    """A handshake in a known node's name, signed by another key or with another's record, is dropped."""
    one, two = pair.one, pair.two
    attacker = pair.attacker
    for name, record in (
        (two.record.node_id, two.record),
        (two.record.node_id, record_of("attacker")),
        (attacker.node_id, two.record),
    ):
        forged = PacketCodec(bytes([7]) * 32, seeded(name))
        forged.node_id = name
        before = len(pair.network.log)
        pair.network.inject(VICTIM, forged.encode_random(one.record.node_id).datagram, ONE)
        (challenge,) = pair.sent_by(one, before)
        whoareyou = packets.decode(challenge.datagram, name)
        assert isinstance(whoareyou, packets.WhoAreYou)
        ping = messages.encode(messages.Ping(b"\x01", 1))
        contact = one.contact._replace(endpoint=ONE)
        reply = forged.encode_handshake(contact, whoareyou._replace(enr_seq=0), record, ping)
        assert reply is not None
        drops = one.node.drops[PacketDrop.BAD_HANDSHAKE]
        pair.network.inject(VICTIM, reply, ONE)
        assert one.node.drops[PacketDrop.BAD_HANDSHAKE] == drops + 1
        assert one.node.codec.sessions.newest(name, VICTIM) is None


def test_a_node_with_endless_neighbours_is_queried_a_bounded_number_of_times(
    pair: ConnectedPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each response has new records, of nodes that do not exist."""
    one, two = pair.one, pair.two
    invented = 0
    two.node.codec.challenges.remove(one.record.node_id, ONE)

    def endless(distances: Iterable[int]) -> list[Enr]:
        nonlocal invented
        records: list[Enr] = []
        while len(records) < 16:
            invented += 1
            records.append(record_of(("invented", invented), f"127.3.{invented >> 8 & 255}.{invented & 255}"))
        return records

    monkeypatch.setattr(two.node.table, "at_distances", endless)
    one.node.peers_wanted = True
    before = len(pair.network.log)
    pair.network.run(120)
    assert len(pair.sent_by(one, before)) < 120 * 40
    assert len(one.node.table) <= 256 * 26
    assert len(one.node.calls) <= MAX_ACTIVE_CALLS
    assert len(one.node._candidates) <= 128
    assert len(one.node.lookups) <= 4


def test_the_number_of_calls_is_bounded(pair: ConnectedPair) -> None:
    calls = pair.one.node.calls
    submitted = [
        calls.submit(
            OutgoingCall(contact_of(record_of(number, "127.8.8.8")), DiscoveryPurpose.REVALIDATE), 1, pair.network.now
        )
        for number in range(MAX_ACTIVE_CALLS + 50)
    ]
    assert sum(submitted) == MAX_ACTIVE_CALLS
    pair.network.run(3)
    assert len(calls) == 0 and not calls._by_nonce and not calls._queued
    assert pair.still_respond()


def test_one_host_sends_200_datagrams_a_second_after_a_burst(pair: ConnectedPair) -> None:
    """From all its ports together; other hosts are not held up."""

    def send(count: int, number: int = 9) -> int:
        dropped = pair.one.node.drops[PacketDrop.TOO_MANY]
        for port in range(1, count + 1):
            pair.network.inject(endpoint(f"127.0.0.{number}", port), bytes(100), ONE)
        return count - (pair.one.node.drops[PacketDrop.TOO_MANY] - dropped)

    assert send(600) == 500
    pair.network.now += 0.5
    assert send(600) == 100
    assert send(100, number=10) == 100
    assert pair.still_respond()
