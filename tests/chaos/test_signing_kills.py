"""A sequencer is killed at random moments around the signature of its blocks, while its execution engine loses blocks
and builds others: no two blocks of a height are ever signed, and with a conductor none before its commit [CND5, SGN9,
SGN10].

500 kills take a minute and fifty seconds of CPU: `python -m tests.support.engine.killed_sequencers FOLDER 500 SEED`."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.leftovers import Leftovers

ROOT = Path(__file__).parents[2]
KILLS = 12


@pytest.mark.parametrize("words", [(), ("--conductor",)], ids=["alone", "conducted"])
def test_no_kill_makes_two_blocks_of_a_height_signed(leftovers: Leftovers, words: tuple[str, ...]) -> None:
    seed = random.randrange(2**32)
    command = (
        sys.executable,
        "-m",
        "tests.support.engine.killed_sequencers",
        str(leftovers.folder),
        str(KILLS),
        str(seed),
    )
    environment = leftovers.environment(PYTHONPATH=":".join((str(ROOT), *filter(None, sys.path))))
    ended = subprocess.run(
        (*command, *words), cwd=leftovers.folder, env=environment, capture_output=True, text=True, timeout=58
    )
    assert ended.returncode == 0, f"seed {seed}: {ended.stderr[-2000:]}"
    counts = json.loads(ended.stdout)
    assert counts["kills"] >= KILLS and counts["S"] > KILLS, counts
    assert counts["sealed twice"] > 0 and counts["not gossiped"] > 0, "no kill came at a moment that matters"
    assert counts.get("C", 0) >= len(words) * counts["S"]
