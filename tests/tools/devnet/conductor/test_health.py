"""When a sequencer is healthy, and what follows."""

import pytest

from rollup_node.tools.devnet.conductor.health import Action, HealthChecks, SequencerReport, action, best


def report(number: int = 10, *, unsafe: int = 100, safe: int = 90, peers: int | None = 2) -> SequencerReport:
    return SequencerReport(number, b"\x01" * 32, unsafe, safe, 5, b"\x02" * 32, peers, True)


@pytest.mark.parametrize(
    ("checks", "now", "since", "expected"),
    [
        (HealthChecks(6), 106.0, 0.0, None),
        (HealthChecks(6), 106.5, 0.0, "its unsafe head 10 has not advanced for 6.5 s"),
        (HealthChecks(6), 106.5, 103.0, None),
        (HealthChecks(6), 110.0, 103.0, "its unsafe head 10 has not advanced for 7.0 s"),
        (HealthChecks(60, safe_interval=12), 102.5, 0.0, "its safe head 5 has not advanced for 12.5 s"),
        (HealthChecks(60, safe_interval=12), 102.5, 95.0, None),
        (HealthChecks(60, min_peers=2), 101.0, 0.0, None),
        (HealthChecks(60, min_peers=3), 101.0, 0.0, "it has 2 peers"),
    ],
)
def test_health(checks: HealthChecks, now: float, since: float, expected: str | None) -> None:
    assert checks.problem(report(), now, since) == expected


def test_a_node_without_p2p_has_no_peers() -> None:
    assert HealthChecks(60, min_peers=1).problem(report(peers=None), 101.0, 0.0) == "it has 0 peers"
    assert HealthChecks(60).problem(report(peers=None), 101.0, 0.0) is None


@pytest.mark.parametrize(
    ("leads", "healthy", "active", "expected"),
    [
        (False, True, True, Action.STOP),
        (False, False, True, Action.STOP),
        (False, True, False, Action.NONE),
        (False, False, None, Action.NONE),
        (True, False, True, Action.TRANSFER),
        (True, False, False, Action.TRANSFER),
        (True, False, None, Action.TRANSFER),
        (True, True, False, Action.START),
        (True, True, True, Action.NONE),
    ],
)
def test_actions(leads: bool, healthy: bool, active: bool | None, expected: Action) -> None:
    assert action(leads=leads, healthy=healthy, active=active) is expected


def test_the_next_leader() -> None:
    reports = {"a": report(9), "b": report(12), "c": None}
    assert best(reports, {}) == "b"
    assert best(reports, {"b": "it has 0 peers"}) == "a", "a healthy one, though its head is lower"
    assert best(reports, {"a": "bad", "b": "bad", "c": "bad"}) == "b"
    assert best({"c": None}, {"c": "it does not answer"}) is None
