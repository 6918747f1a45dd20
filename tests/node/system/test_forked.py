"""The first acts of a forked process."""

import subprocess
import sys


def test_all_other_descriptors_are_closed() -> None:
    """In a process of its own, because it would close those of pytest."""
    code = """
import os
from rollup_node.node.system.forked import close_all_but
kept, closed = os.open("/dev/null", os.O_RDONLY), os.open("/dev/null", os.O_RDONLY)
close_all_but({0, 1, 2, kept})
os.fstat(kept)
print("kept", flush=True)
os.fstat(closed)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "kept\n" and "Bad file descriptor" in done.stderr
