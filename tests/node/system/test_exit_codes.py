"""The version of the program."""

from importlib.metadata import version as installed_version

from rollup_node.node.system.exit_codes import PROGRAM, version


def test_the_version_is_that_of_the_distribution() -> None:
    assert version() == f"v{installed_version(PROGRAM)}"
