"""The importer of upgrade transactions writes the files that are in the tree."""

import json
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.protocol import upgrade_transactions as upgrades
from rollup_node.tools.importers.upgrades import bundle_entries, created, deployer, main

ENTRY = {"intent": "Do", "from": "0x" + "01" * 20, "to": "", "data": "0x05", "gasLimit": 7}


def bundle(version: str = "1.0.0", **changes: Any) -> bytes:
    return json.dumps({"metadata": {"version": version}, "transactions": [ENTRY | changes]}).encode()


def test_the_files_in_the_tree_are_its_output(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(shared_data / "upgrades"), "--output", str(tmp_path)]) == 0
    assert "DIFFERS" not in capsys.readouterr().out
    for name in upgrades.LOCKS:
        file = f"upgrades_{name}.json"
        assert (tmp_path / file).read_bytes() == (Path(upgrades.__file__).parent / "forks" / file).read_bytes()


def test_bundle_entries() -> None:
    (found,) = bundle_entries(bundle(), "Karst")
    assert (found.intent, found.to, found.gas, found.data, found.mint) == ("Karst 0: Do", None, 7, "0x05", "0")


@pytest.mark.parametrize(
    ("content", "text"), [(bundle("1.1.0"), "bundle version"), (bundle(intent=""), "bundle entry 0 has no intent")]
)
def test_bundles_that_are_refused(content: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        bundle_entries(content, "Karst")


def test_addresses_of_deployments() -> None:
    assert deployer(3).hex() == "4210000000000000000000000000000000000003"
    assert created(deployer(0)).hex() == "07dbe8500fc591d1852b76fee44d5a05e13097ff"
