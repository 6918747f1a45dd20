"""Sessions and challenges."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.discv5 import packets, sessions
from rollup_node.stages.p2p.discv5.packets import MessagePacket
from rollup_node.stages.p2p.discv5.sessions import (
    BoundedMap,
    Challenges,
    DecryptedMessage,
    Discv5Session,
    SentChallenge,
    Sessions,
)
from tests.support.p2p.discv5_nodes import endpoint, record_of, seeded

NODE = record_of("node").node_id
ENDPOINT = endpoint("127.0.0.1")
RANDOM = seeded("sessions")


def session(number: int = 0) -> Discv5Session:
    return Discv5Session(bytes([number]) * 16, bytes([number]) * 16, number)


def encrypted(key: bytes, nonce: bytes, plaintext: bytes) -> MessagePacket:
    header = packets.message_header(NODE, bytes(32), nonce, bytes(16))
    return MessagePacket(NODE, nonce, packets.encrypt(key, nonce, plaintext, header.data), header.data)


def test_nonces_are_unique() -> None:
    one = session()
    nonces = [one.next_nonce(RANDOM) for _ in range(1000)]
    assert len(set(nonces)) == 1000 and {len(nonce) for nonce in nonces} == {12}
    assert [int.from_bytes(nonce[:4], "big") for nonce in nonces] == list(range(1, 1001))


def test_an_exhausted_session_is_not_used() -> None:
    kept, one = Sessions(), session()
    kept.add(NODE, ENDPOINT, one)
    one.message_count = (1 << 32) - 2
    assert kept.newest(NODE, ENDPOINT) is one
    one.next_nonce(bytes)
    assert kept.newest(NODE, ENDPOINT) is None


def test_our_handshake_behind_the_challenge_of_theirs_stays_the_one_to_write_with() -> None:
    kept, ours, theirs = Sessions(), session(5), session(4)
    kept.add(NODE, ENDPOINT, ours)
    kept.add(NODE, ENDPOINT, theirs)
    assert kept.newest(NODE, ENDPOINT) is ours
    for number in (4, 5):
        packet = encrypted(bytes([number]) * 16, bytes([number]) * 12, b"hi")
        assert kept.decrypt(packet, ENDPOINT) == DecryptedMessage(b"hi")
    later = session(6)
    kept.add(NODE, ENDPOINT, later)
    assert kept.newest(NODE, ENDPOINT) is later


def test_the_number_of_seen_nonces_is_bounded() -> None:
    one = session()
    assert all(one.accept_nonce(number.to_bytes(12, "big")) for number in range(1000))
    assert len(one.seen_nonces) == 32 and not one.accept_nonce((999).to_bytes(12, "big"))


def test_the_number_of_sessions_is_bounded() -> None:
    kept = Sessions()
    for number in range(3000):
        kept.add(NODE, endpoint(f"127.0.{number >> 8}.{number & 255}"), session())
    assert len(kept) == sessions.MAX_SESSIONS
    for port in range(1, 1000):
        kept.add(NODE, endpoint("127.9.9.9", port), session())
    ports = sum(kept.newest(NODE, endpoint("127.9.9.9", port)) is not None for port in range(1, 1000))
    assert ports == sessions.MAX_SESSIONS_PER_HOST
    kept.clear()
    assert len(kept) == 0


def test_challenges_expire_and_are_bounded_per_node() -> None:
    kept = Challenges()
    for number in range(5):
        kept.add(NODE, ENDPOINT, SentChallenge(bytes([number]), None, 10.0 + number, number), 9.0)
    assert [result.challenge_data[0] for result in kept.pending(NODE, ENDPOINT, 9.0)] == [4, 3, 2]
    assert [result.challenge_data[0] for result in kept.pending(NODE, ENDPOINT, 13.0)] == [4]
    assert kept.pending(NODE, endpoint("127.0.0.2"), 9.0) == ()
    kept.remove(NODE, ENDPOINT)
    assert kept.pending(NODE, ENDPOINT, 9.0) == () and len(kept) == 0


def test_the_number_of_challenges_is_bounded() -> None:
    kept = Challenges()
    for number in range(5000):
        kept.add(
            number.to_bytes(32, "big"), endpoint(f"127.0.{number % 20}.1"), SentChallenge(b"", None, 10.0, number), 9.0
        )
    assert len(kept) <= sessions.MAX_CHALLENGES


@given(st.lists(st.tuples(st.sampled_from(["put", "get", "pop"]), st.integers(0, 12), st.integers(0, 3)), max_size=60))
def test_bounds_hold_after_any_operations(steps: list[tuple[str, int, int]]) -> None:
    entries: BoundedMap[int, int] = BoundedMap(6, 3)
    groups: dict[int, int] = {}
    for action, key, group in steps:
        if action == "put":
            entries.put(key, bytes([group]), key * 10)
            groups[key] = group
            assert entries.get(key) == key * 10
        elif action == "get":
            assert entries.get(key) in (None, key * 10)
        else:
            entries.pop(key)
            assert entries.get(key) is None
        present = [key for key in range(13) if key in entries._entries]
        assert len(entries) == len(present) <= 6
        assert all(sum(groups[key] == group for key in present) <= 3 for group in range(4))
        assert sum(map(len, entries._groups.values())) == len(present)
