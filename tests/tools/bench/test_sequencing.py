"""The benchmark of the engine process at the wire, with few blocks."""

import pytest

from rollup_node.tools.bench.sequencing import main, share


def test_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--payloads", "3", "--runs", "1", "--blocks", "13", "--block-time", "1", "--l1-latency", "0.05"])
    out = capsys.readouterr().out
    assert out.startswith("engine process, at the wire")
    assert "payload from message to newPayload, p99" in out
    assert "sequencing overhead of 13 blocks, p99" in out
    assert "slots missed with L1 answers after 50 ms" in out


def test_the_share_of_values() -> None:
    assert share([float(value) for value in range(101)], 50) == 50
    assert share([float(value) for value in range(101)], 99) == 99
