"""How the conductor starts, stops and replaces the leader, with the RPC servers of two sequencers."""

import pytest

from rollup_node.tools.devnet.conductor_control import (
    Cluster,
    HealthChecks,
    SequencerReport,
    best,
)
from tests.support.p2p.blocks import chain

SERVERS = ("sequencer", "sequencer-2")
BLOCKS = chain(6)


def report(number: int = 10, peers: int | None = 2) -> SequencerReport:
    return SequencerReport(number, b"\x01" * 32, 100, 90, 5, b"\x02" * 32, peers, True)


@pytest.mark.parametrize(
    ("checks", "peers", "now", "since", "expected"),
    [
        (HealthChecks(6), 2, 106.0, 0.0, None),
        (HealthChecks(6), 2, 106.5, 0.0, "its unsafe head 10 has not advanced for 6.5 s"),
        (HealthChecks(6), 2, 106.5, 103.0, None),
        (HealthChecks(6), 2, 110.0, 103.0, "its unsafe head 10 has not advanced for 7.0 s"),
        (HealthChecks(60, safe_interval=12), 2, 102.5, 0.0, "its safe head 5 has not advanced for 12.5 s"),
        (HealthChecks(60, safe_interval=12), 2, 102.5, 95.0, None),
        (HealthChecks(60, min_peers=2), 2, 101.0, 0.0, None),
        (HealthChecks(60, min_peers=3), 2, 101.0, 0.0, "it has 2 peers"),
        (HealthChecks(60, min_peers=1), None, 101.0, 0.0, "it has 0 peers"),
        (HealthChecks(60), None, 101.0, 0.0, None),
    ],
)
def test_health(checks: HealthChecks, peers: int | None, now: float, since: float, expected: str | None) -> None:
    assert checks.problem(report(peers=peers), now, since) == expected


def test_the_next_leader() -> None:
    reports = {"a": report(9), "b": report(12), "c": None}
    assert best(reports, {}) == "b"
    assert best(reports, {"b": "it has 0 peers"}) == "a", "a healthy one, though its head is lower"
    assert best(reports, {"a": "bad", "b": "bad", "c": "bad"}) == "b"
    assert best({"c": None}, {"c": "it does not answer"}) is None


def committed(count: int) -> Cluster:
    cluster = Cluster(SERVERS)
    for payload in BLOCKS[:count]:
        assert cluster.commit("sequencer", payload)
    return cluster


def test_the_blocks_that_a_server_lacks() -> None:
    cluster = committed(4)
    assert cluster.after(BLOCKS[3].block_hash) == []
    assert cluster.after(BLOCKS[1].block_hash) == BLOCKS[2:4]
    assert cluster.after(BLOCKS[0].parent_hash) == BLOCKS[:4], "the parent of the first one needs all"
    assert cluster.after(b"\x77" * 32) is None
    assert Cluster(SERVERS).after(bytes(32)) is None
