"""What the base installation consists of."""

from pathlib import Path

from rollup_node.tools.dev.dependencies import base_dependencies, pinned_versions
from tests.conftest import ROOT


def test_needs_of_needs_are_there_and_extras_are_not() -> None:
    needs = base_dependencies(ROOT)
    assert "cffi" in needs["rollup-node"] and "pycparser" in needs["cffi"] and "pycparser" in needs
    assert not {"web3", "pytest", "pyarrow"} & needs.keys()
    assert all(name in needs for names in needs.values() for name in names)


def test_every_one_of_them_has_a_version() -> None:
    assert base_dependencies(ROOT).keys() - {"rollup-node"} <= pinned_versions(ROOT).keys()


def test_names_are_compared_as_pip_does(tmp_path: Path) -> None:
    (tmp_path / "constraints.txt").write_text("# comment\nPy_YAML==1.0 ; python_version < '4'\n")
    assert pinned_versions(tmp_path) == {"py-yaml": "1.0"}
