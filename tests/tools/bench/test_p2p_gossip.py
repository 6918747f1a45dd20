"""The benchmark of the gossipsub router, with few peers."""

import pytest

from rollup_node.tools.bench.p2p_gossip import GossipBench, main


def test_figures_are_positive() -> None:
    bench = GossipBench(20, seed=1)
    assert bench.heartbeat_percent(3) > 0
    assert bench.block_milliseconds(2) > 0
    assert len(bench.raw_block(0)) > 100_000


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--peers", "30", "--heartbeats", "2", "--blocks", "2", "--runs", "1"])
    output = capsys.readouterr().out
    assert output.startswith("gossip among 30 peers, 4 topics")
    assert "heartbeats, CPU" in output
