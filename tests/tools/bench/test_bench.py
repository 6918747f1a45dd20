"""What floods and figures are compared with."""

import pytest

from rollup_node.tools.bench.drops import FLOODS, Flood, FloodRun
from rollup_node.tools.bench.measure import Figure, show


@pytest.mark.parametrize("flood", FLOODS, ids=[flood.name for flood in FLOODS])
def test_each_flood_is_dropped_for_one_reason(flood: Flood) -> None:
    run = FloodRun(flood, 300)
    assert run.seconds() > 0
    ((_, count),) = run.drops.items()
    assert 298 <= count <= 305


@pytest.mark.parametrize(
    ("figure", "code", "verdict"),
    [
        (Figure("a", "s", (1.0,), bound=1.0), 0, "bound 1: held"),
        (Figure("a", "s", (1.1,), bound=1.0), 1, "bound 1: MISSED"),
        (Figure("a", "x", (2.0,), floor=1.5), 0, "floor 1.5: held"),
        (Figure("a", "x", (1.4,), floor=1.5), 1, "floor 1.5: MISSED"),
    ],
)
def test_bounds_are_compared(figure: Figure, code: int, verdict: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert show("title", [figure]) == code
    assert verdict in capsys.readouterr().out
