"""`rollup-node supernode`: the plans of all chains, and what keeps them from one node [SNO3 to SNO6]."""

import os
from pathlib import Path

import pytest

from rollup_node.node.supernode import main
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.runtime_dir import take_lock
from tests.support.processes.local_chains import lines_of, local_chains, plan

PAIR = ("--chains=10,130", "--l1=http://l1", "--l1.beacon=http://b", "--vn.all.l2=http://l2", "--disable-p2p")


def test_built_in_networks_are_found_by_their_ids(tmp_path: Path) -> None:
    """[SNO3, SNO4]"""
    plans, interop = plan(*PAIR, f"--data-dir={tmp_path}", "--vn.130.safedb.path=/elsewhere", "--vn.10.p2p.priv.path=k")
    assert [(chain.group, chain.chain.name) for chain in plans] == [("10", "op-mainnet"), ("130", "unichain-mainnet")]
    assert plans[0].values["safedb.path"] == f"{tmp_path}/10/safe_db"
    assert [plan.values["rollup.bundle-dir"] for plan in plans] == [f"{tmp_path}/10", f"{tmp_path}/130"]
    assert plans[1].values["p2p.peerstore.path"] == f"{tmp_path}/130/p2p/peerstore_db"
    assert plans[0].values["p2p.priv.path"] == "k"
    assert plans[0].runtime_dir == plans[1].runtime_dir and plans[0].p2p is None
    assert interop is not None and set(interop.members) == {10, 130}
    assert interop.activation == plans[0].chain.config.fork_times["lagoon"]
    assert interop.store_path == tmp_path / "interop.db"


def test_chains_without_interop_are_followed_side_by_side(tmp_path: Path) -> None:
    plans, interop = plan(*local_chains(tmp_path))
    assert [chain.l2_chain_id for chain in plans] == [901, 902] and interop is None


def test_everything_that_is_wrong_in_all_chains_is_told_at_once() -> None:
    """What is wrong in all of them once, and what is wrong in one with its chain [SNO1]."""
    lines = lines_of("--chains=10,130", "--vn.10.l2=x", "--l2=http://x", "--vn.130.network=nope", "--disable-p2p")
    assert [line.partition(": ")[0] for line in lines] == [
        "flag --l2 is an option of a chain",
        'invalid value "x" for flag --vn.10.l2',
        "chain 10",
        "chain 130",
        "chain 130",
    ]


def test_what_is_missing_is_named_as_it_is_given_here() -> None:
    """[SNO1]"""
    lines = lines_of("--chains=7,8", "--vn.8.l2=http://x", "--l1=http://l1", "--l1.beacon=http://b", "--disable-p2p")
    assert [line.partition(" is required")[0] for line in lines] == [
        "flag vn.all.network or vn.all.rollup.config",
        "chain 7: flag vn.7.l2",
    ]


def test_two_chains_on_one_port_are_refused() -> None:
    """[SNO3]"""
    words = [word for word in PAIR if word != "--disable-p2p"]
    ports = ("--vn.10.p2p.listen.tcp=9222", "--vn.130.p2p.listen.tcp=9222", "--vn.130.p2p.listen.udp=9223")
    (line,) = lines_of(*words, *ports)
    assert line == "chain 130: flag --vn.130.p2p.listen.tcp: chain 10 listens on 9222 too: give another port"
    plans, _ = plan(*words, *ports, "--vn.130.p2p.listen.ip=127.0.0.2")
    assert [plan.values["p2p.listen.tcp"] for plan in plans] == [9222, 9222]


def test_an_activation_without_a_dependency_set_is_refused(tmp_path: Path) -> None:
    """[SNO5]"""
    words = [word for word in local_chains(tmp_path) if not word.startswith("--dependency-set")]
    (line,) = lines_of(*words, "--interop.activation-timestamp=5")
    assert line.startswith("interop.activation-timestamp: no chain of --chains executes messages of another")


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    """[SNO4]"""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    lock = take_lock(data)
    try:
        with pytest.raises(SetupError, match="is in use by another node"):
            main(local_chains(tmp_path))
    finally:
        os.close(lock)
