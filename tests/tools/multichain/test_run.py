"""Runs of a local network of several chains."""

import json
import subprocess
import sys
from pathlib import Path

from rollup_node.tools.devnet.run import LOCK
from rollup_node.tools.multichain.run import clear


def test_what_an_earlier_run_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "901").mkdir()
    (tmp_path / "901" / "rollup.json").touch()
    for name in ("l1.log", LOCK):
        (tmp_path / name).touch()
    clear(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]


def test_chains_with_messages_have_equal_roots() -> None:
    """[SNO7, LB7] A supernode of two chains that execute messages of each other, and another one."""
    words = ["--chains=2", "--supernodes=2", "--interop=4", "--blocks=20", "--l1-block-time=2", "--l2-block-time=1"]
    command = [sys.executable, "-m", "rollup_node.node", "devnet", *words, "--json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=55, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    result = json.loads(run.stdout)
    assert result["differences"] == [] and result["super_roots"] > 5 and result["messages"]["valid"] > 0
    assert min(result["safe"].values()) >= 20
