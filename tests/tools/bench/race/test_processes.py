"""What the race reads of processes."""

import os
import subprocess
import sys
import time

from rollup_node.tools.bench.race.processes import cpu_usage, memory_of_tree, name_of, process_tree

NESTED = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import setproctitle, sys; setproctitle.setproctitle('a node: role');"
    "print('up', flush=True); sys.stdin.read()"])
child.wait()
"""


def test_a_tree_of_processes() -> None:
    command = [sys.executable, "-c", NESTED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        assert parent.stdout.readline() == b"up\n"
        tree = process_tree(parent.pid)
        assert (tree[0], len(tree)) == (parent.pid, 2)
        usage = cpu_usage(parent.pid)
        assert set(usage.by_process) == {os.path.basename(sys.executable), "role"}
        assert 0 <= sum(usage.by_process.values()) <= usage.total + 1e-6
        assert 2 < memory_of_tree(parent.pid) < 500
        parent.stdin.close()
        parent.wait(20)
    assert process_tree(parent.pid) == [parent.pid]
    assert cpu_usage(parent.pid).total == memory_of_tree(parent.pid) == 0


def test_own_cpu() -> None:
    before, own = cpu_usage(os.getpid()), time.process_time()
    while time.process_time() < own + 0.05:
        pass
    name = name_of(os.getpid())
    assert 0.02 <= cpu_usage(os.getpid()).by_process[name] - before.by_process[name] < 10
