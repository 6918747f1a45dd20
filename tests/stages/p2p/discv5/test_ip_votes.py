"""Votes on our external address."""

from rollup_node.stages.p2p.discv5.ip_votes import MIN_VOTES, VOTE_SECONDS, IpVotes
from tests.support.p2p.discv5_nodes import endpoint

OURS, FALSE = endpoint("9.9.9.9"), endpoint("8.8.4.4", 1)


def votes_for(ours: int, false: int = 0) -> IpVotes:
    votes = IpVotes()
    for number in range(ours + false):
        votes.add(bytes([number]), endpoint(f"5.{number}.0.1"), OURS if number < ours else FALSE, 100.0)
    return votes


def test_a_majority_of_enough_votes_wins() -> None:
    assert votes_for(MIN_VOTES).winner(100.0) == OURS
    assert votes_for(MIN_VOTES - 1).winner(100.0) is None
    assert votes_for(9, 8).winner(100.0) == OURS
    assert votes_for(8, 8).winner(100.0) is None


def test_votes_expire() -> None:
    votes = votes_for(MIN_VOTES)
    assert votes.winner(99.0 + VOTE_SECONDS) == OURS
    assert votes.winner(100.0 + VOTE_SECONDS) is None and len(votes) == 0


def test_a_network_has_one_vote() -> None:
    votes = votes_for(MIN_VOTES)
    for number in range(250):
        votes.add(bytes([number]), endpoint(f"6.6.6.{number}"), FALSE, 100.0)
    assert len(votes) == MIN_VOTES + 1 and votes.winner(100.0) == OURS


def test_each_node_of_a_local_network_has_a_vote() -> None:
    votes = IpVotes()
    for number in range(MIN_VOTES):
        votes.add(bytes([number]), endpoint("127.0.0.1", 1000 + number), endpoint("127.0.0.1"), 100.0)
    assert votes.winner(100.0) == endpoint("127.0.0.1")


def test_remote_nodes_cannot_vote_for_a_local_address() -> None:
    votes = IpVotes()
    for number in range(20):
        for claimed in ("127.0.0.1", "10.0.0.1", "0.0.0.0", "224.0.0.1"):
            votes.add(bytes([number]), endpoint(f"5.{number}.0.1"), endpoint(claimed), 100.0)
        votes.add(bytes([number]), endpoint(f"5.{number}.0.1"), endpoint("9.9.9.9", 0), 100.0)
    assert len(votes) == 0


def test_the_number_of_votes_is_bounded() -> None:
    votes = IpVotes()
    for number in range(1000):
        votes.add(b"", endpoint(f"5.{number >> 8}.{number & 255}.1"), OURS, 100.0)
    assert len(votes) == 200
