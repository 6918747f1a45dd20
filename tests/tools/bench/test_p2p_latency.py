"""The benchmark of gossip between two processes, with few blocks."""

import pytest

from rollup_node.tools.bench.p2p_latency import main


def test_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--runs", "1", "--blocks", "3", "--warm-up", "0"])
    out = capsys.readouterr().out
    assert out.startswith("gossip from socket to engine message")
    assert "block of 100 KB" in out
