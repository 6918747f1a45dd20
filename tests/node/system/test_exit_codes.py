"""Errors on one line."""

from importlib.metadata import version as installed_version

from rollup_node.node.system.exit_codes import MAX_LINE, PROGRAM, one_line, version


def test_a_line_stays_one_and_printable() -> None:
    assert one_line("a file \u00fc, said:\n\x1b[31mred\x00 \udcff") == r"a file ü, said:\n\x1b[31mred\x00 \udcff"


def test_a_long_line_is_cut() -> None:
    assert one_line("a" * MAX_LINE) == "a" * MAX_LINE
    assert one_line("a" * (MAX_LINE + 1)) == "a" * MAX_LINE + "..."


def test_the_version_is_that_of_the_distribution() -> None:
    assert version() == f"v{installed_version(PROGRAM)}"
