"""What strangers and liars can do to a discovery node: nothing that makes it fail, grow, send more than it was sent, or
forget its friends."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.p2p.discv5 import messages, packets, sessions
from rollup_node.stages.p2p.discv5.calls import MAX_ACTIVE_CALLS, CallPurpose, OutgoingCall, OutgoingPacket
from rollup_node.stages.p2p.discv5.contact import Endpoint
from rollup_node.stages.p2p.discv5.packet_codec import PacketCodec, PacketDrop
from rollup_node.stages.p2p.discv5.packets import WHOAREYOU_SIZE
from rollup_node.stages.p2p.discv5.table import PER_NETWORK, PER_NETWORK_IN_BUCKET
from tests.support.discv5_nodes import Discv5Simulation, SimulatedNode, contact_of, endpoint, record_of, seeded

ONE, TWO, VICTIM = (endpoint(f"127.0.0.{number}") for number in (1, 2, 66))


class Friends:
    """Two nodes that know each other, and a liar's means."""

    def __init__(self) -> None:
        self.network = Discv5Simulation()
        self.one, self.two = self.network.add("one", ONE, wanted=False), self.network.add("two", TWO, wanted=False)
        self.one.node.add_bootnodes([self.two.contact])
        self.network.run(3)
        assert self.one.live_ids == {self.two.record.node_id}
        self.liar = PacketCodec(bytes([7]) * 32, seeded("liar"))

    def sent_by(self, node: SimulatedNode, since: int) -> list[OutgoingPacket]:
        return [sending for sender, sending in self.network.log[since:] if sender == node.endpoint]

    def still_talk(self) -> bool:
        call = OutgoingCall(self.two.contact, CallPurpose.FETCH, (0,))
        assert self.one.node.calls.submit(call, 1, self.network.now)
        self.network.run(1)
        return self.two.record.node_id in call.records


@pytest.fixture
def friends() -> Iterator[Friends]:
    yield Friends()


FRIENDS = Friends()
"""For the tests that change nothing."""


@settings(max_examples=600)
@given(data=st.binary(max_size=1400))
def test_garbage_is_dropped(data: bytes) -> None:
    at = endpoint("127.7.7.7", 1 + len(data))
    FRIENDS.network.now += 1
    before = len(FRIENDS.network.log)
    FRIENDS.network.inject(at, data, ONE)
    assert len(FRIENDS.network.log) == before


@settings(max_examples=400)
@given(
    flag=st.integers(0, 255),
    auth=st.binary(max_size=600),
    sealed=st.binary(max_size=700),
    nonce=st.binary(min_size=12, max_size=12),
)
def test_well_masked_garbage_gets_at_most_a_challenge(flag: int, auth: bytes, sealed: bytes, nonce: bytes) -> None:
    one = FRIENDS.one
    head = b"discv5\x00\x01" + bytes([flag]) + nonce + len(auth).to_bytes(2, "big") + auth
    iv = bytes(16)
    datagram = packets.PacketHeader(one.record.node_id, iv, iv + head).packet(sealed)
    before = len(FRIENDS.network.log)
    FRIENDS.network.now += 1
    FRIENDS.network.inject(endpoint("127.7.7.8"), datagram, ONE)
    answers = FRIENDS.sent_by(one, before)
    assert sum(len(answer.datagram) for answer in answers) <= min(len(datagram), WHOAREYOU_SIZE)


@settings(max_examples=400)
@given(kind=st.integers(0, 12), body=st.binary(max_size=500))
def test_any_message_within_a_session_is_harmless(kind: int, body: bytes) -> None:
    one, two = FRIENDS.one, FRIENDS.two
    sealed = two.node.codec.encode_message(one.record.node_id, ONE, bytes([kind]) + body)
    assert sealed is not None
    FRIENDS.network.now += 1
    FRIENDS.network.inject(TWO, sealed.datagram, ONE)
    assert one.node.codec.sessions.newest(two.record.node_id, TWO) is not None


def test_replies_to_a_forged_source_do_not_amplify(friends: Friends) -> None:
    before = len(friends.network.log)
    received = 0
    for _ in range(500):
        knock = friends.liar.encode_random(friends.one.record.node_id).datagram
        received += len(knock)
        friends.network.inject(VICTIM, knock, ONE)
    answers = friends.sent_by(friends.one, before)
    assert answers and all(len(answer.datagram) == WHOAREYOU_SIZE for answer in answers)
    assert sum(len(answer.datagram) for answer in answers) < received / 5
    assert friends.one.node.drops[PacketDrop.TOO_MANY] + friends.one.node.drops[PacketDrop.TOO_MANY_CHALLENGES] > 400
    assert friends.still_talk()


def test_a_flood_from_everywhere_is_bounded(friends: Friends) -> None:
    service = friends.one.node
    random = seeded("flood")
    for _ in range(20_000):
        raw = random(6)
        source = PacketCodec(bytes([1 + raw[0] % 200]) * 32, random) if raw[0] < 2 else friends.liar
        at = endpoint(f"127.{raw[1]}.{raw[2]}.{raw[3]}", 1024 + raw[4])
        friends.network.inject(at, source.encode_random(friends.one.record.node_id).datagram, ONE)
        friends.network.now += 0.0001
    assert len(service.codec.challenges) <= sessions.MAX_CHALLENGES
    assert len(service.codec.sessions) <= 2
    assert len(service._packet_limits) <= 2048
    assert friends.still_talk()


def test_a_flood_from_everywhere_does_not_keep_known_nodes_out(friends: Friends) -> None:
    for number in range(2000):
        at = endpoint(f"127.9.{number >> 8}.{number & 255}")
        friends.network.inject(at, friends.liar.encode_random(friends.one.record.node_id).datagram, ONE)
    assert friends.one.node.drops[PacketDrop.TOO_MANY_CHALLENGES] > 1000
    friends.two.node.codec.sessions.clear()
    friends.two.node.calls.submit(OutgoingCall(friends.one.contact, CallPurpose.REVALIDATE), 1, friends.network.now)
    friends.network.run(0.2)
    assert friends.two.node.codec.sessions.newest(friends.one.record.node_id, ONE) is not None
    assert friends.still_talk()


def test_a_replayed_message_is_answered_once(friends: Friends) -> None:
    asked = messages.encode(messages.FindNode(b"\x01", (0,)))
    sealed = friends.two.node.codec.encode_message(friends.one.record.node_id, ONE, asked)
    assert sealed is not None
    before = len(friends.network.log)
    for _ in range(20):
        friends.network.inject(TWO, sealed.datagram, ONE)
    assert len(friends.sent_by(friends.one, before)) == 1
    assert friends.one.node.drops[PacketDrop.REPLAYED] == 19


def test_a_replayed_message_from_another_address_gets_a_challenge_only(friends: Friends) -> None:
    asked = messages.encode(messages.FindNode(b"\x01", (0, 256)))
    sealed = friends.two.node.codec.encode_message(friends.one.record.node_id, ONE, asked)
    assert sealed is not None
    before = len(friends.network.log)
    friends.network.inject(VICTIM, sealed.datagram, ONE)
    assert [len(answer.datagram) for answer in friends.sent_by(friends.one, before)] == [WHOAREYOU_SIZE]
    assert friends.still_talk()


def test_a_replayed_handshake_or_challenge_is_dropped() -> None:
    network = Discv5Simulation()
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
    assert all(len(sending.datagram) == WHOAREYOU_SIZE for _, sending in repeated)


def test_a_forged_source_cannot_end_a_session(friends: Friends) -> None:
    """Garbage and forged challenges from a friend's address leave the session as it is."""
    one, two = friends.one, friends.two
    forged = PacketCodec(bytes([8]) * 32, seeded("forger"))
    forged.node_id = two.record.node_id
    for number in range(50):
        friends.network.inject(TWO, forged.encode_random(one.record.node_id).datagram, ONE)
        nonce = number.to_bytes(12, "big")
        fake = packets.whoareyou_header(one.record.node_id, nonce, bytes(16), 0, bytes(16))
        friends.network.inject(TWO, fake.packet(), ONE)
    session = one.node.codec.sessions.newest(two.record.node_id, TWO)
    assert friends.still_talk()
    assert one.node.codec.sessions.newest(two.record.node_id, TWO) is session


def test_forged_random_packets_do_not_prevent_a_handshake() -> None:
    network = Discv5Simulation()
    one, two = network.add("one", ONE, wanted=False), network.add("two", TWO, wanted=False)
    forged = PacketCodec(bytes([8]) * 32, seeded("forger"))
    forged.node_id = two.record.node_id

    def racing(sender: Endpoint, sending: OutgoingPacket) -> OutgoingPacket:
        if sender == TWO:
            one.node.receive_datagram(forged.encode_random(one.record.node_id).datagram, TWO, network.now)
        return sending

    network.filter = racing
    two.node.add_bootnodes([one.contact])
    network.run(2)
    assert two.live_ids == {one.record.node_id}


def test_a_node_cannot_impersonate_another(friends: Friends) -> None:
    """A handshake in a friend's name, signed by another key or with another's record, is refused."""
    one, two = friends.one, friends.two
    liar = friends.liar
    for name, record in (
        (two.record.node_id, two.record),
        (two.record.node_id, record_of("liar")),
        (liar.node_id, two.record),
    ):
        forged = PacketCodec(bytes([7]) * 32, seeded(name))
        forged.node_id = name
        before = len(friends.network.log)
        friends.network.inject(VICTIM, forged.encode_random(one.record.node_id).datagram, ONE)
        (challenge,) = friends.sent_by(one, before)
        read = packets.decode(challenge.datagram, name)
        assert isinstance(read, packets.WhoAreYou)
        ping = messages.encode(messages.Ping(b"\x01", 1))
        contact = one.contact._replace(endpoint=ONE)
        answer = forged.encode_handshake(contact, read._replace(enr_seq=0), record, ping)
        assert answer is not None
        drops = one.node.drops[PacketDrop.BAD_HANDSHAKE]
        friends.network.inject(VICTIM, answer, ONE)
        assert one.node.drops[PacketDrop.BAD_HANDSHAKE] == drops + 1
        assert one.node.codec.sessions.newest(name, VICTIM) is None


def test_a_liar_cannot_fill_the_table_from_one_network() -> None:
    network = Discv5Simulation()
    one = network.add("one", endpoint("9.9.9.9"), restricted_to=())
    table = one.node.table
    for number in range(2000):
        table.add_seen_node(record_of(number, f"203.0.112.{number % 250 + 1}"), network.now)
    assert len(table) <= PER_NETWORK
    assert max(len(bucket.entries) for bucket in table._buckets.values()) <= PER_NETWORK_IN_BUCKET


def test_a_liar_with_endless_nodes_is_queried_a_bounded_number_of_times(friends: Friends) -> None:
    """A node that answers every lookup with new nodes that do not exist."""
    one, two = friends.one, friends.two
    made = 0
    two.node.codec.challenges.remove(one.record.node_id, ONE)

    def endless(distances: tuple[int, ...], asker: object) -> list[bytes]:
        nonlocal made
        found = []
        while len(found) < 16:
            made += 1
            found.append(record_of(("made up", made), f"127.3.{made >> 8 & 255}.{made & 255}").raw)
        return found

    two.node._neighbours = endless  # type: ignore[method-assign]
    one.node.peers_wanted = True
    before = len(friends.network.log)
    friends.network.run(120)
    assert len(friends.sent_by(one, before)) < 120 * 40
    assert len(one.node.table) <= 256 * 26
    assert len(one.node.calls) <= MAX_ACTIVE_CALLS
    assert len(one.node._candidates) <= 128
    assert len(one.node.lookups) <= 4


def test_records_at_unrequested_distances_are_skipped(friends: Friends) -> None:
    friends.two.node._neighbours = lambda distances, asker: [record_of("stray", "127.4.4.4").raw]  # type: ignore[method-assign]
    call = OutgoingCall(friends.two.contact, CallPurpose.FETCH, (1,))
    friends.one.node.calls.submit(call, 1, friends.network.now)
    friends.network.run(1)
    assert call.responses == 1 and not call.records


def test_the_number_of_calls_is_bounded(friends: Friends) -> None:
    calls = friends.one.node.calls
    taken = [
        calls.submit(
            OutgoingCall(contact_of(record_of(number, "127.8.8.8")), CallPurpose.REVALIDATE), 1, friends.network.now
        )
        for number in range(MAX_ACTIVE_CALLS + 50)
    ]
    assert sum(taken) == MAX_ACTIVE_CALLS
    to_one = [
        calls.submit(OutgoingCall(friends.two.contact, CallPurpose.REVALIDATE), 1, friends.network.now)
        for _ in range(10)
    ]
    assert sum(to_one) <= 5
    friends.network.run(3)
    assert len(calls) == 0 and not calls._by_nonce and not calls._queued
    assert friends.still_talk()
