"""Counts of how requests went."""

import pytest

from rollup_node.stages.p2p.scoring import application_score

A, B = b"peer a", b"peer b"


@pytest.fixture
def app() -> application_score.ApplicationScorer:
    return application_score.ApplicationScorer(application_score.application_score_params(2))


def test_weights_and_caps(app: application_score.ApplicationScorer) -> None:
    for _ in range(30):
        app.on_valid_response(A, 0.0)
    assert app.counts(A).valid_responses == 10.0 and app.score(A) == 5.0
    for _ in range(30):
        app.on_response_error(A, 0.0)
    assert app.counts(A).error_responses == 9.0 and app.score(A) == -4.0
    for _ in range(30):
        app.on_rejected_payload(A, 0.0)
    assert app.counts(A) == (10.0, 9.0, 20.0) and app.score(A) == -404.0
    assert app.score(B) == 0.0 and app.counts(B) == application_score.ResponseCounts()


def test_only_counts_of_connected_peers_decay(app: application_score.ApplicationScorer) -> None:
    app.peer_connected(A)
    app.refresh(0.0)
    for peer in (A, B):
        app.on_valid_response(peer, 0.0)
    app.refresh(2.0)
    app.refresh(3.0)
    assert app.counts(A).valid_responses == pytest.approx(application_score.decay_factor(10))
    assert app.counts(B).valid_responses == 1.0
    app.refresh(122.0)
    assert app.counts(A).valid_responses == 0.0
    app.peer_disconnected(A)


def test_counts_are_retained_for_a_while(app: application_score.ApplicationScorer) -> None:
    app.refresh(0.0)
    app.on_response_error(A, 10.0)
    app.refresh(1209.0)
    assert app.score(A) == -1.0
    app.refresh(1214.0)
    assert app.counts(A) == application_score.ResponseCounts()


def test_counts_are_restored(app: application_score.ApplicationScorer) -> None:
    app.restore(A, application_score.ResponseCounts(1.0, 2.0, 3.0), 0.0)
    assert app.score(A) == -61.5
    app.restore(A, application_score.ResponseCounts(), 0.0)
    assert app.score(A) == -61.5


def test_memory_is_bounded(app: application_score.ApplicationScorer) -> None:
    for number in range(application_score.MAX_PEERS + 3):
        app.on_response_error(number.to_bytes(4, "big"), float(number))
    assert app.score((0).to_bytes(4, "big")) == 0.0 and app.score((3).to_bytes(4, "big")) == -1.0


def test_nothing_is_counted_when_scoring_is_off() -> None:
    app = application_score.ApplicationScorer(application_score.application_score_params(2, enabled=False))
    app.on_response_error(A, 0.0)
    app.restore(A, application_score.ResponseCounts(1.0, 2.0, 3.0), 0.0)
    assert app.counts(A) == application_score.ResponseCounts()


def test_a_decay_reaches_a_hundredth_after_its_epochs() -> None:
    assert application_score.decay_factor(10) ** 60 == pytest.approx(0.01)


def test_a_slot_is_a_block_time() -> None:
    assert [application_score.slot_seconds(block_time) for block_time in (0, 1, 2)] == [2.0, 1.0, 2.0]
    assert application_score.epochs_seconds(100, 2) == 1200.0
