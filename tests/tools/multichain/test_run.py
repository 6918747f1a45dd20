"""Runs of a local network of several chains."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rollup_node.tools.devnet.run import LOCK
from rollup_node.tools.multichain.run import clear
from tests.support.processes.chains import Chains
from tests.support.processes.leftovers import Leftovers


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


@pytest.mark.parametrize(
    ("flags", "rule"), [(("cycle",), "CY3"), (("expired", "--expiry", "10"), "EM8")], ids=["cycle", "expired"]
)
def test_messages_that_are_invalid_in_one_way(leftovers: Leftovers, flags: tuple[str, ...], rule: str) -> None:
    """[CY3, EM8, IV3] Their blocks are replaced."""
    with Chains(leftovers, "--chains", "2", "--interop", "4", "--invalid", "3", "--wrong", *flags) as net:
        net.wait(lambda: f"[{rule}]" in net.log("supernode"), f"a block is denied by {rule}")
        net.wait_for_height(max(number for _, number, _ in net.denials()))
        result = net.finish()
    assert result["rules"][rule] > 0 and sum(result["invalidated"].values()) > 0


def test_a_sequencer_to_which_its_source_lies_goes_on(leftovers: Leftovers) -> None:
    """[FSR2, FSR3, FSR6] It builds on its own chain, which becomes safe, whatever it is told."""
    with Chains(leftovers, "--chains", "2", "--interop", "4", "--lie", "1.5") as net:
        net.wait_for_height(1)
        net.wait(lambda: "FOLLOW-" in (net.root / "901" / "sequencer.log").read_text(), "it refuses what it is told")
        net.wait_for_height(net.height(901) + 10)
        result = net.finish()
    assert result["lies"] > 0
