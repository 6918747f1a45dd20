"""The benchmark of the engine process at the wire, with few blocks."""

import subprocess
import sys

from rollup_node.tools.bench.sequencing import share


def test_one_run() -> None:
    arguments = ["--payloads", "3", "--runs", "1", "--blocks", "13", "--block-time", "1", "--l1-latency", "0.05"]
    command = [sys.executable, "-m", "rollup_node.tools.bench.sequencing", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=58, check=False)
    assert done.stdout.startswith("engine process, at the wire"), done.stderr
    assert "payload from message to newPayload, p99" in done.stdout
    assert "sequencing overhead of 13 blocks, p99" in done.stdout
    assert "slots missed with L1 answers after 50 ms" in done.stdout


def test_the_share_of_values() -> None:
    assert share([float(value) for value in range(101)], 50) == 50
    assert share([float(value) for value in range(101)], 99) == 99
