"""Counts of how requests went. The scores of `light` and `none`, number by number."""

import pytest

from rollup_node.stages.p2p.config import PeerScoring
from rollup_node.stages.p2p.peering import peer_score
from rollup_node.stages.p2p.peering.peer_score import (
    MAX_RETAINED,
    PeerScorer,
)
from rollup_node.stages.p2p.storage.peer_record import GossipScores, ReqRespScores

A, B = b"peer a", b"peer b"


@pytest.fixture
def app() -> peer_score.ApplicationScorer:
    return peer_score.ApplicationScorer(1200.0)


def test_weights_and_caps(app: peer_score.ApplicationScorer) -> None:
    for _ in range(30):
        app.on_valid_response(A, 0.0)
    assert app.counts(A).valid_responses == 10.0 and app.score(A) == 5.0
    for _ in range(30):
        app.on_response_error(A, 0.0)
    assert app.counts(A).error_responses == 9.0 and app.score(A) == -4.0
    for _ in range(30):
        app.on_rejected_payload(A, 0.0)
    assert app.counts(A) == ReqRespScores(10.0, 9.0, 20.0) and app.score(A) == -404.0
    assert app.score(B) == 0.0 and app.counts(B) == ReqRespScores()


def test_counts_are_retained_for_a_while(app: peer_score.ApplicationScorer) -> None:
    app.on_response_error(A, 10.0)
    app.decay(1210.0)
    assert app.score(A) == -1.0
    app.decay(1210.1)
    assert app.counts(A) == ReqRespScores()


def test_memory_is_bounded(app: peer_score.ApplicationScorer) -> None:
    for number in range(peer_score.MAX_PEERS + 3):
        app.on_response_error(number.to_bytes(4, "big"), float(number))
    assert app.score((0).to_bytes(4, "big")) == 0.0 and app.score((3).to_bytes(4, "big")) == -1.0


def test_a_slot_is_a_block_time() -> None:
    scorers = [PeerScorer(PeerScoring.LIGHT, block_time) for block_time in (0, 1, 2)]
    assert [scorer.retained_seconds for scorer in scorers] == [1200.0, 600.0, 1200.0]


SLOT = 2.0


@pytest.fixture
def scores() -> PeerScorer:
    return PeerScorer(PeerScoring.LIGHT, 2)


def names(count: int) -> list[bytes]:
    return [number.to_bytes(4, "big") for number in range(count)]


def test_the_behaviour_penalty_is_squared_above_its_threshold(scores: PeerScorer) -> None:
    scores.add_peer(A, ["10.0.0.1"])
    scores.add_penalty(A, 6)
    assert scores.score(A) == 0.0
    scores.add_penalty(A, 1)
    assert scores.score(A) == -16.0
    scores.add_penalty(A, 2)
    assert scores.score(A) == -144.0 and scores.gossip_scores(A).behavioral_penalty == 9.0
    scores.add_penalty(B, 100)
    assert scores.score(B) == 0.0 and scores.gossip_scores(B) == GossipScores()


def test_behaviour_decays_once_per_slot(scores: PeerScorer) -> None:
    scores.add_peer(A, ["10.0.0.1"])
    scores.add_penalty(A, 10)
    scores.refresh(100.0)
    scores.application.connected.add(B)
    scores.application.on_valid_response(B, 100.0)
    for now in (100.5, 101.0, 101.9):
        scores.refresh(now)
    assert scores.application.counts(B).valid_responses == 1.0
    assert scores.gossip_scores(A).behavioral_penalty == 10.0
    scores.refresh(102.0)
    assert scores.application.counts(B).valid_responses == pytest.approx(peer_score.DECAY)
    assert scores.gossip_scores(A).behavioral_penalty == pytest.approx(10 * peer_score.DECAY)
    scores.refresh(100.0 + 60 * SLOT)
    assert scores.gossip_scores(A).behavioral_penalty == pytest.approx(0.1)
    scores.refresh(100.0 + 120 * SLOT)
    assert scores.gossip_scores(A).behavioral_penalty == 0.0


def test_more_than_ten_peers_at_an_address(scores: PeerScorer) -> None:
    for peer in names(10):
        scores.add_peer(peer, ["10.0.0.1"])
    assert scores.score(names(1)[0]) == 0.0
    scores.add_peer(A, ["10.0.0.1", "10.0.0.2"])
    assert scores.score(A) == scores.score(names(1)[0]) == -35.0
    scores.add_peer(B, ["10.0.0.1"])
    assert scores.score(A) == -140.0
    scores.add_peer(B, ["10.0.0.3"])
    assert scores.score(A) == -35.0 and scores.score(B) == 0.0


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.2"])
def test_our_own_machine_is_exempt(scores: PeerScorer, address: str) -> None:
    for peer in names(50):
        scores.add_peer(peer, [address])
    assert {scores.score(peer) for peer in names(50)} == {0.0}


def test_disconnecting_does_not_reset_a_bad_score(scores: PeerScorer) -> None:
    scores.add_peer(A, ["10.0.0.1"])
    scores.add_penalty(A, 8)
    scores.refresh(0.0)
    scores.remove_peer(A, 10.0)
    scores.refresh(500.0)
    scores.add_peer(A, ["10.0.0.1"])
    assert scores.score(A) == -64.0, "it does not decay while the peer is away"
    scores.remove_peer(A, 500.0)
    scores.refresh(1701.0)
    assert len(scores) == 0
    scores.add_peer(A, ["10.0.0.1"])
    assert scores.score(A) == 0.0


def test_retained_records_are_bounded(scores: PeerScorer) -> None:
    for peer in names(MAX_RETAINED + 50):
        scores.add_peer(peer, [f"10.0.0.{peer[3]}"])
        scores.remove_peer(peer, 1.0)
    assert len(scores) == MAX_RETAINED


def test_none_scores_nothing() -> None:
    scores = PeerScorer(PeerScoring.NONE, 2)
    for peer in names(30):
        scores.add_peer(peer, ["10.0.0.1"])
    scores.add_penalty(names(1)[0], 100)
    scores.application.on_rejected_payload(names(1)[0], 0.0)
    scores.application.restore(B, ReqRespScores(1.0, 2.0, 3.0), 0.0)
    assert {scores.score(peer) for peer in scores.peers()} == {0.0}
    assert scores.thresholds == (0, 0, 0, 0)
    assert scores.application.counts(names(1)[0]) == scores.application.counts(B) == ReqRespScores()
