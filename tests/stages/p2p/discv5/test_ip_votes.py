"""Votes on our address."""

from rollup_node.stages.p2p.discv5.ip_votes import MIN_VOTES, VOTE_SECONDS, IpVotes
from tests.support.discv5_nodes import endpoint

OURS, LIE = endpoint("9.9.9.9"), endpoint("8.8.4.4", 1)


def votes(ours: int, lies: int = 0) -> IpVotes:
    made = IpVotes()
    for number in range(ours + lies):
        made.add(bytes([number]), endpoint(f"5.{number}.0.1"), OURS if number < ours else LIE, 100.0)
    return made


def test_a_majority_of_enough_votes_wins() -> None:
    assert votes(MIN_VOTES).winner(100.0) == OURS
    assert votes(MIN_VOTES - 1).winner(100.0) is None
    assert votes(9, 8).winner(100.0) == OURS
    assert votes(8, 8).winner(100.0) is None


def test_votes_expire() -> None:
    made = votes(MIN_VOTES)
    assert made.winner(99.0 + VOTE_SECONDS) == OURS
    assert made.winner(100.0 + VOTE_SECONDS) is None and len(made) == 0


def test_a_network_has_one_vote() -> None:
    made = votes(MIN_VOTES)
    for number in range(250):
        made.add(bytes([number]), endpoint(f"6.6.6.{number}"), LIE, 100.0)
    assert len(made) == MIN_VOTES + 1 and made.winner(100.0) == OURS


def test_each_node_of_a_local_network_has_a_vote() -> None:
    made = IpVotes()
    for number in range(MIN_VOTES):
        made.add(bytes([number]), endpoint("127.0.0.1", 1000 + number), endpoint("127.0.0.1"), 100.0)
    assert made.winner(100.0) == endpoint("127.0.0.1")


def test_remote_nodes_cannot_vote_for_a_local_address() -> None:
    made = IpVotes()
    for number in range(20):
        for claimed in ("127.0.0.1", "10.0.0.1", "0.0.0.0", "224.0.0.1"):
            made.add(bytes([number]), endpoint(f"5.{number}.0.1"), endpoint(claimed), 100.0)
        made.add(bytes([number]), endpoint(f"5.{number}.0.1"), endpoint("9.9.9.9", 0), 100.0)
    assert len(made) == 0


def test_the_number_of_votes_is_bounded() -> None:
    made = IpVotes()
    for number in range(1000):
        made.add(b"", endpoint(f"5.{number >> 8}.{number & 255}.1"), OURS, 100.0)
    assert len(made) == 200
