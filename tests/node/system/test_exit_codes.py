"""Errors on one line."""

from rollup_node.node.system.exit_codes import MAX_LINE, one_line


def test_a_line_stays_one_and_printable() -> None:
    assert one_line("a file \u00fc, said:\n\x1b[31mred\x00 \udcff") == r"a file ü, said:\n\x1b[31mred\x00 \udcff"


def test_a_long_line_is_cut() -> None:
    assert one_line("a" * MAX_LINE) == "a" * MAX_LINE
    assert one_line("a" * (MAX_LINE + 1)) == "a" * MAX_LINE + "..."
