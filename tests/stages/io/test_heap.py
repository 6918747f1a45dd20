"""Freed memory is given back."""

import subprocess
import sys

PROGRAM = """
from pathlib import Path
from rollup_node.stages.io.heap import map_large_blocks

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

assert map_large_blocks()
before = resident()
for _ in range(3):
    blocks = [b"x" * (4 << 20) for _ in range(20)]
    del blocks[:-1]
print(resident() - before)
"""


def test_large_blocks_are_given_back_although_a_newer_one_stays() -> None:
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 8 << 20, "one block of 4 MiB and what the interpreter needs"
