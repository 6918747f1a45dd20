"""What the benchmark of the local network reads of processes and logs."""

import os
import time

from rollup_node.tools.bench.network import READY_LINE, cpu_seconds


def test_cpu_seconds_of_processes() -> None:
    before, own = cpu_seconds([os.getpid()]), time.process_time()
    while time.process_time() < own + 0.05:
        pass
    assert 0.02 <= cpu_seconds([os.getpid()]) - before < 10
    assert cpu_seconds([]) == 0


def test_ready_line_matches_the_log_of_the_supervisor() -> None:
    match = READY_LINE.search('t=2026-01-01T00:00:00 lvl=info msg="node is ready" seconds=0.52 processes=9')
    assert match is not None
    assert match[1] == "0.52"
