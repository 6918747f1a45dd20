"""Discovery messages."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.discv5 import messages, packets
from rollup_node.stages.p2p.discv5.messages import FindNode, MessageError, Nodes, Ping, Pong, TalkRequest, TalkResponse
from rollup_node.stages.protocol import rlp
from tests.support.p2p.discv5_nodes import record_of

IDS = st.binary(max_size=8)
SEQS = st.integers(0, 2**64 - 1)
MESSAGES = st.one_of(
    st.builds(Ping, IDS, SEQS),
    st.builds(Pong, IDS, SEQS, st.ip_addresses(v=4), st.integers(0, 65535)),
    st.builds(FindNode, IDS, st.lists(st.integers(0, 256), max_size=20, unique=True).map(tuple)),
    st.builds(Nodes, IDS, st.integers(0, 16), st.lists(st.just(record_of("n").raw), max_size=3).map(tuple)),
    st.builds(TalkRequest, IDS, st.binary(max_size=20), st.binary(max_size=200)),
    st.builds(TalkResponse, IDS, st.binary(max_size=200)),
)


@given(MESSAGES)
def test_messages_round_trip(message: messages.Discv5Message) -> None:
    assert messages.decode(messages.encode(message)) == message


def test_a_ping_by_its_bytes() -> None:
    assert messages.encode(Ping(b"\0\0\0\1", 2)).hex() == "01c6840000000102"


def test_addresses_of_both_versions_and_mapped_ones() -> None:
    six = Pong(b"a", 1, ipaddress.ip_address("2001:db8::1"), 9222)
    assert messages.decode(messages.encode(six)) == six
    mapped = Pong(b"a", 1, ipaddress.ip_address("::ffff:127.0.0.1"), 9222)
    assert messages.decode(messages.encode(mapped)) == mapped._replace(ip=ipaddress.ip_address("127.0.0.1"))


def test_numbers_with_leading_zeros_are_accepted() -> None:
    raw = b"\x01" + rlp.encode([b"a", b"\0\0\5"])
    assert messages.decode(raw) == Ping(b"a", 5)
    assert messages.decode(b"\x03" + rlp.encode([b"a", [b"\0"]])) == FindNode(b"a", (0,))


@pytest.mark.parametrize(
    "plain",
    [
        b"",
        b"\x00",
        b"\x07\xc0",
        b"\x01",
        b"\x01\xc0",
        b"\x01\x80",
        b"\x01" + rlp.encode([b"a"]),
        b"\x01" + rlp.encode([b"a", b"1", b"2"]),
        b"\x01" + rlp.encode([bytes(9), b"1"]),
        b"\x01" + rlp.encode([[b"a"], b"1"]),
        b"\x01" + rlp.encode([b"a", bytes(9)]),
        b"\x01" + rlp.encode([b"a", b"1"]) + b"x",
        b"\x02" + rlp.encode([b"a", b"1", bytes(5), b"1"]),
        b"\x02" + rlp.encode([b"a", b"1", bytes(4), bytes(3)]),
        b"\x03" + rlp.encode([b"a", b"1"]),
        b"\x03" + rlp.encode([b"a", [b"\x01\x01"]]),
        b"\x03" + rlp.encode([b"a", [[b"\x01"]]]),
        b"\x04" + rlp.encode([b"a", b"1", b"x"]),
        b"\x06" + rlp.encode([b"a", [b"x"]]),
    ],
    ids=range(19),
)
def test_malformed_messages_are_rejected(plain: bytes) -> None:
    with pytest.raises(MessageError):
        messages.decode(plain)


@pytest.mark.parametrize(("count", "answers"), [(0, 1), (1, 1), (3, 1), (4, 2), (16, 6), (40, 6)])
def test_records_are_split_over_responses_that_fit(count: int, answers: int) -> None:
    result = messages.nodes_messages(b"12345678", [rlp.encode_list([bytes(297)])] * count)
    assert len(result) == answers and all(part.total == answers for part in result)
    assert sum(len(part.records) for part in result) == min(count, 16)
    head = 16 + 23 + 32 + 16
    assert all(head + len(messages.encode(part)) <= packets.MAX_PACKET_BYTES for part in result)
