"""Lengths of time, and foreign texts as one line."""

import pytest

from rollup_node.stages.protocol.texts import MAX_ERROR_TEXT, MAX_LINE, age, duration, escaped_line, one_line


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (0.9, "0s"), (59, "59s"), (60, "1m0s"), (415, "6m55s"), (7980, "2h13m"), (3600 * 76, "3d4h")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.44, "0.4 s"), (9.9, "9.9 s"), (10, "10s"), (415, "6m55s")])
def test_ages(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_a_foreign_text_is_one_printable_line() -> None:
    assert one_line("a\n b\x1b[31m\tc" + "d" * 1000) == "a b?[31m c" + "d" * (MAX_ERROR_TEXT - 10)


def test_a_text_of_a_server_does_not_show_our_login() -> None:
    """Some show the request that they refuse."""
    sent = "Authorization: Basic dXNyOlBBU1M= Accept: x {'authorization': 'Bearer abc.def'} see http://u:p@h/x"
    assert one_line(sent) == "Authorization: *** Accept: x {'authorization': '***'} see http://***@h/x"


def test_a_line_for_the_terminal_stays_one_and_printable() -> None:
    assert escaped_line("a file \u00fc, said:\n\x1b[31mred\x00 \udcff") == r"a file ü, said:\n\x1b[31mred\x00 \udcff"
    assert escaped_line("a" * MAX_LINE) == "a" * MAX_LINE
    assert escaped_line("a" * (MAX_LINE + 1)) == "a" * MAX_LINE + "..."
