"""Figures, their bounds and floors, and repetition."""

import pytest

from rollup_node.tools.bench.measure import Figure, machine, repeat, show


def test_median() -> None:
    assert Figure("time", "s", (3.0, 1.0, 2.0)).median == 2.0


def test_repeat_discards_the_warm_up() -> None:
    values = iter(range(10))
    assert repeat(3, 2, lambda: float(next(values))) == (2.0, 3.0, 4.0)


@pytest.mark.parametrize(
    ("figure", "code", "verdict"),
    [
        (Figure("a", "s", (1.0,)), 0, ""),
        (Figure("a", "s", (1.0,), bound=1.0), 0, "bound 1: held"),
        (Figure("a", "s", (1.1,), bound=1.0), 1, "bound 1: MISSED"),
        (Figure("a", "x", (2.0,), floor=1.5), 0, "floor 1.5: held"),
        (Figure("a", "x", (1.4,), floor=1.5), 1, "floor 1.5: MISSED"),
    ],
)
def test_show_reports_bounds(figure: Figure, code: int, verdict: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert show("title", [figure]) == code
    output = capsys.readouterr().out
    assert output.startswith("title\n")
    assert verdict in output
    assert "1 runs" in output


def test_machine_is_one_line() -> None:
    assert "Python 3." in machine()
    assert "\n" not in machine()
