"""What is generated is current: pages of documents, sections of some, and the Grafana dashboard."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.tools.commands import doc
from rollup_node.tools.faults.scenario import parse_scenarios
from rollup_node.tools.importers import (
    api_docs,
    architecture_docs,
    code_docs,
    dashboard,
    drop_reasons,
    fault_cases,
    metric_docs,
    option_docs,
    peer_drops,
    readme,
    troubleshooting,
)
from rollup_node.tools.importers.generated_sections import with_section, with_sections
from rollup_node.tools.importers.marked_tests import NAMES, Mark, marks
from tests.conftest import ROOT
from tests.support.rpc.prometheus import mistakes, selectors

PAGES: dict[str, tuple[Path, Callable[[], str]]] = {
    "api_docs": (api_docs.PAGE, api_docs.page),
    "code_docs": (code_docs.PAGE, code_docs.page),
    "dashboard": (dashboard.DASHBOARD, dashboard.text),
    "drop_reasons": (drop_reasons.PAGE, drop_reasons.page),
    "fault_cases": (fault_cases.PAGE, fault_cases.page),
    "metric_docs": (metric_docs.PAGE, doc.page),
    "option_docs": (option_docs.OPTIONS_FILE, option_docs.options_text),
    "peer_drops": (peer_drops.PAGE, peer_drops.page),
    "troubleshooting": (troubleshooting.PAGE, troubleshooting.page),
}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_current(name: str) -> None:
    path, page = PAGES[name]
    assert path.read_text() == page(), f"run python -m rollup_node.tools.importers.{name}"


@pytest.mark.parametrize(
    ("name", "path", "sections"),
    [
        ("architecture_docs", architecture_docs.ARCHITECTURE, architecture_docs.SECTIONS),
        ("readme", readme.README, readme.SECTIONS),
    ],
)
def test_the_sections_are_current(name: str, path: Path, sections: Mapping[str, Callable[[], str]]) -> None:
    text = path.read_text()
    assert with_sections(text, sections) == text, f"run python -m rollup_node.tools.importers.{name}"


def test_every_effect_of_a_drop_is_explained() -> None:
    assert drop_reasons.MEANINGS.keys() == set(DropEffect)


# --- sections between markers --------------------------------------------------------------------------------------

TEXT = "before\n<!-- a: begin (generated) -->\nold\n<!-- a: end -->\nafter\n"


def test_a_section_is_replaced() -> None:
    replaced = with_section(TEXT, "a", "new\nlines")
    assert replaced == "before\n<!-- a: begin (generated) -->\nnew\nlines\n<!-- a: end -->\nafter\n"
    assert with_section(replaced, "a", "new\nlines") == replaced


@pytest.mark.parametrize("text", ["", "<!-- a: begin (generated) -->", TEXT.replace("end", "stop")])
def test_a_text_without_markers_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no markers <!-- a: begin"):
        with_section(text, "a", "new")


# --- markers of tests, and the faults that they name ---------------------------------------------------------------

FILE = """import pytest

pytestmark = [pytest.mark.fault("F9..F11"), pytest.mark.slow]


@pytest.mark.option("l1", "l2", by="url")
@pytest.mark.parametrize("number", [1])
async def test_it(number): ...


@pytest.mark.sign("MEMORY", line=True)
def test_another(): ...
"""


def test_markers_of_tests_and_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "test_it.py").write_text(FILE)
    (tmp_path / "test_none.py").write_text("def test_none(): ...")
    assert marks(tmp_path) == (
        Mark("fault", ("F9", "F10", "F11"), {}, "folder/test_it.py"),
        Mark("option", ("l1", "l2"), {"by": "url"}, "folder/test_it.py::test_it"),
        Mark("sign", ("MEMORY",), {"line": True}, "folder/test_it.py::test_another"),
    )


def test_markers_are_registered() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert all(f'"{name}(' in text for name in NAMES)


def test_each_fault_has_tests_and_scenarios_name_faults_that_exist() -> None:
    faults = fault_cases.cases()
    assert list(faults) == [f"F{number}" for number in range(1, 62)]
    assert {name for mark in marks() if mark.name == "fault" for name in mark.values} == set(faults)
    scenarios = parse_scenarios(fault_cases.SCENARIOS.read_text())
    assert {case for scenario in scenarios for case in scenario.cases} <= set(faults)
    assert "reorg-1" in fault_cases.scenarios_of("F9", scenarios)


# --- the dashboard -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("expression", tuple(dashboard.expressions()))
def test_metrics_of_the_dashboard_exist_with_their_labels_and_types(expression: str) -> None:
    assert list(selectors(expression))
    assert mistakes(expression) == []


def test_each_query_is_of_the_chosen_node() -> None:
    targets = [target["expr"] for panel in dashboard.dashboard()["panels"] for target in panel.get("targets", [])]
    assert [expr for expr in targets if any("instance" not in item.labels for item in selectors(expr))] == []


def test_panels_do_not_overlap() -> None:
    panels, taken = dashboard.dashboard()["panels"], set[tuple[int, int]]()
    for panel in panels:
        x, y, width, height = (panel["gridPos"][name] for name in "xywh")
        cells = {(x + right, y + down) for right in range(width) for down in range(height)}
        assert x + width <= dashboard.WIDTH and not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)
