"""Options of a supernode of local chains."""

import json
from pathlib import Path
from typing import Any

import pytest

from rollup_node.node.options.errors import WrongOptions
from rollup_node.node.options.supernode import read_supernode_options
from rollup_node.node.setup.reload import Plans
from rollup_node.node.supernode import plan_chains
from rollup_node.tools.devnet.files import devnet_chain, l1_chain_config, rollup_json
from rollup_node.tools.devnet.settings import parse


def plan(*words: str) -> Plans:
    """Return the plans for these options."""
    return plan_chains(read_supernode_options(words, {}))


def lines_of(*words: str) -> tuple[str, ...]:
    """Return what is wrong with these options."""
    with pytest.raises(WrongOptions) as caught:
        plan(*words)
    return caught.value.lines


def local_chains(folder: Path, *changes: dict[str, Any]) -> list[str]:
    """Return the options of local chains 901 and 902, with changes to their rollup.json."""
    members = {901, 902, *(change.get("l2_chain_id", 901) for change in changes)}
    (folder / "l1.json").write_text(json.dumps(l1_chain_config()))
    (folder / "set.json").write_text(json.dumps({"dependencies": {str(chain): {} for chain in members}}))
    words = [
        *("--chains=901,902", "--l1=http://l1", "--l1.beacon=http://b", "--disable-p2p"),
        f"--vn.all.rollup.l1-chain-config={folder}/l1.json",
        f"--dependency-set={folder}/set.json",
        f"--data-dir={folder}/data",
    ]
    for index, change in enumerate(changes or ({}, {})):
        value = rollup_json(parse(()), "0x" + "11" * 32, "0x" + "22" * 32, 1000, devnet_chain(index)) | change
        (folder / f"{901 + index}.json").write_text(json.dumps(value))
        words += [f"--vn.{901 + index}.rollup.config={folder}/{901 + index}.json", "--vn.all.l2=http://l2"]
    return words
