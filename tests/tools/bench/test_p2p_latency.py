"""The benchmark of gossip between two processes, with few blocks."""

import subprocess
import sys


def test_one_run() -> None:
    arguments = ["--runs", "1", "--blocks", "3", "--warm-up", "0"]
    command = [sys.executable, "-m", "rollup_node.tools.bench.p2p_latency", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=58, check=False)
    assert done.stdout.startswith("gossip from socket to engine message"), done.stderr
    assert "block of 100 KB" in done.stdout
