"""`rollup-node supernode`: the plans of all chains, and what keeps them from one node [SNO3 to SNO6]."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollup_node.node.options.errors import WrongOptions
from rollup_node.node.options.supernode import read_supernode_options
from rollup_node.node.setup.start import Plans
from rollup_node.node.supernode import main, plan_chains
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.runtime_dir import take_lock
from rollup_node.stages.protocol.interop_messages import MESSAGE_EXPIRY_WINDOW
from rollup_node.tools.devnet.files import devnet_chain, l1_chain_config, rollup_json
from rollup_node.tools.devnet.settings import parse

PAIR = ("--chains=10,130", "--l1=http://l1", "--l1.beacon=http://b", "--vn.all.l2=http://l2", "--disable-p2p")


def plan(*words: str) -> Plans:
    return plan_chains(read_supernode_options(words, {}))


def lines_of(*words: str) -> tuple[str, ...]:
    with pytest.raises(WrongOptions) as caught:
        plan(*words)
    return caught.value.lines


LocalChains = Callable[..., list[str]]


@pytest.fixture
def local(tmp_path: Path) -> LocalChains:
    """Return the options of local chains 901 and 902, with changes to their rollup.json."""

    def options(*changes: dict[str, Any]) -> list[str]:
        members = {901, 902, *(change.get("l2_chain_id", 901) for change in changes)}
        (tmp_path / "l1.json").write_text(json.dumps(l1_chain_config()))
        (tmp_path / "set.json").write_text(json.dumps({"dependencies": {str(chain): {} for chain in members}}))
        words = [
            *("--chains=901,902", "--l1=http://l1", "--l1.beacon=http://b", "--disable-p2p"),
            f"--vn.all.rollup.l1-chain-config={tmp_path}/l1.json",
            f"--dependency-set={tmp_path}/set.json",
            f"--data-dir={tmp_path}/data",
        ]
        for index, change in enumerate(changes or ({}, {})):
            value = rollup_json(parse(()), "0x" + "11" * 32, "0x" + "22" * 32, 1000, devnet_chain(index)) | change
            (tmp_path / f"{901 + index}.json").write_text(json.dumps(value))
            words += [f"--vn.{901 + index}.rollup.config={tmp_path}/{901 + index}.json", "--vn.all.l2=http://l2"]
        return words

    return options


def test_built_in_networks_are_found_by_their_ids(tmp_path: Path) -> None:
    """[SNO3, SNO4]"""
    plans, interop = plan(*PAIR, f"--data-dir={tmp_path}", "--vn.130.safedb.path=/elsewhere", "--vn.10.p2p.priv.path=k")
    assert [(chain.group, chain.chain.name) for chain in plans] == [("10", "op-mainnet"), ("130", "unichain-mainnet")]
    assert plans[0].values["safedb.path"] == f"{tmp_path}/10/safe_db"
    assert plans[1].values["p2p.peerstore.path"] == f"{tmp_path}/130/p2p/peerstore_db"
    assert plans[0].values["p2p.priv.path"] == "k"
    assert plans[0].runtime_dir == plans[1].runtime_dir and plans[0].p2p is None
    assert interop is not None and set(interop.members) == {10, 130}
    assert interop.activation == plans[0].chain.config.fork_times["lagoon"]
    assert interop.store_path == tmp_path / "interop.db"


def test_chains_without_interop_are_followed_side_by_side(local: LocalChains) -> None:
    plans, interop = plan(*local())
    assert [chain.l2_chain_id for chain in plans] == [901, 902] and interop is None


def test_interop_by_a_given_time(local: LocalChains) -> None:
    """[SNO5]"""
    words = local()
    _, interop = plan(*words, "--interop.activation-timestamp=1234", "--interop.log-backfill-depth=1h")
    assert interop is not None
    assert interop[:4] == ((901, 902), 1234, MESSAGE_EXPIRY_WINDOW, 3600)


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


@pytest.mark.parametrize(
    ("changes", "words", "expected"),
    [
        (({"l2_chain_id": 903}, {}), (), "chain 901: flag --vn.901.rollup.config is chain 903"),
        (
            ({}, {"l1_chain_id": 1}),
            (),
            "the chains of --chains have different L1 chains (chain 901: 900, chain 902: 1)",
        ),
        (
            ({"karst_time": 1500, "lagoon_time": 2000}, {"karst_time": 1500, "lagoon_time": 2002}),
            (),
            "mismatched Lagoon activation timestamps: chain 901=2000, chain 902=2002",
        ),
        (
            ({"karst_time": 1500, "lagoon_time": 2000}, {}),
            (),
            "mismatched Lagoon activation timestamps: chain 901=2000, chain 902=never",
        ),
        (
            ({}, {}),
            ("--interop.activation-timestamp=1", "--chains=901"),
            "chain 901 executes messages of chain 902, which --chains lacks",
        ),
    ],
    ids=["id", "l1", "lagoon", "never", "member"],
)
def test_contradictions_are_refused(
    local: LocalChains, changes: tuple[dict[str, Any], ...], words: tuple[str, ...], expected: str
) -> None:
    """[SNO5, SNO6]"""
    given = [word for word in local(*changes) if not (word.startswith("--chains") and "--chains=901" in words)]
    given = [word for word in given if "--chains=901" not in words or not word.startswith("--vn.902")]
    lines = lines_of(*given, *words)
    assert any(line.startswith(expected) for line in lines), lines


def test_a_folder_in_use_is_refused(local: LocalChains, tmp_path: Path) -> None:
    """[SNO4]"""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    lock = take_lock(data)
    try:
        with pytest.raises(SetupError, match="is in use by another node"):
            main(local())
    finally:
        os.close(lock)
