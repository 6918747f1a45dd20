"""The Grafana dashboard."""

import pytest

from rollup_node.tools.importers.dashboard import WIDTH, dashboard, expressions
from tests.support.rpc.prometheus import mistakes, selectors


@pytest.mark.parametrize("expression", tuple(expressions()))
def test_its_metrics_exist_with_their_labels_and_types(expression: str) -> None:
    assert list(selectors(expression))
    assert mistakes(expression) == []


def test_each_query_is_of_the_chosen_node() -> None:
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            for selector in selectors(target["expr"]):
                assert "instance" in selector.labels, target["expr"]


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    numbers = []
    for panel in dashboard()["panels"]:
        numbers.append(panel["id"])
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= WIDTH and not cells & taken, panel["title"]
        taken |= cells
    assert len(set(numbers)) == len(numbers)
