"""Channels are decoded by real compute workers under a supervisor."""

import json
import subprocess
import sys

SCRIPT = """
from random import Random
from rollup_node.tools.bench.decode_job import worker_seconds
from rollup_node.tools.bench.synthetic_chain import make
from rollup_node.tools.fuzz.targets import seeds

chance = Random(5)
bodies = make(20, [seeds.transaction(chance) for _ in range(60)]).bodies * 3
times = worker_seconds(bodies, 2)
print([times.seconds, times.dispatcher])
"""


def test_worker_seconds() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    seconds, dispatcher = json.loads(done.stdout)
    assert dispatcher > 0
    assert 0 < seconds < 50
