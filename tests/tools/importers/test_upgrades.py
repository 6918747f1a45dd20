"""The importer of upgrade transactions writes the files that are in the tree."""

from pathlib import Path

import pytest

from rollup_node.stages.protocol import upgrade_transactions as upgrades
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS
from rollup_node.tools.importers.upgrades import main


def test_the_files_in_the_tree_are_its_output(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(shared_data / "upgrades"), "--output", str(tmp_path)]) == 0
    assert "DIFFERS" not in capsys.readouterr().out
    bundles = [bundle_fork.carried[0].file for bundle_fork in BUNDLE_FORKS.values()]
    for file in (*(f"upgrades_{name}.json" for name in upgrades.LOCKS), *bundles):
        assert (tmp_path / file).read_bytes() == (Path(upgrades.__file__).parent / "forks" / file).read_bytes()
