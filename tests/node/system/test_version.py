"""The version that users see."""

from importlib.metadata import version as installed_version

from rollup_node.node.system.version import PROGRAM, version


def test_the_version_is_that_of_the_distribution() -> None:
    assert version() == f"v{installed_version(PROGRAM)}"
