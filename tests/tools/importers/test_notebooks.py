"""The notebooks run on the recorded data, and have what their cells print and draw."""

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from rollup_node.tools.importers import notebooks
from rollup_node.tools.importers.notebooks import executed, text_of

Cell = dict[str, Any]


def _printed(cell: Cell) -> str:
    return "".join(line for output in cell["outputs"] for line in output.get("text", ()))


def _pictures(cell: Cell) -> int:
    return sum("data" in output for output in cell["outputs"])


@pytest.fixture
def drawing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have matplotlib keep its files in a folder of the test; skip without it."""
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    pytest.importorskip("matplotlib")
    pytest.importorskip("polars")


@pytest.mark.usefixtures("drawing")
@pytest.mark.parametrize("path", notebooks.notebooks(), ids=lambda path: path.stem)
def test_it_runs_and_its_outputs_are_current(path: Path, shared_data: Path) -> None:
    """Of pictures only that they are drawn: another release of matplotlib draws them a little differently."""
    kept = orjson.loads(path.read_bytes())
    assert text_of(kept) == path.read_text(), "it was written by the generator"
    result = executed(kept, shared_data / "op_sepolia_replay")
    for cell, before in zip(result["cells"], kept["cells"], strict=True):
        if cell["cell_type"] == "code":
            assert _printed(cell) == _printed(before), "run python -m rollup_node.tools.importers.notebooks"
            assert _pictures(cell) == _pictures(before)
            drawn = [line for output in cell["outputs"] for line in output.get("data", {}).get("image/svg+xml", ())]
            assert not drawn or "</svg>" in drawn[-1]


@pytest.mark.parametrize("path", notebooks.notebooks(), ids=lambda path: path.stem)
def test_its_links_lead_to_pages(path: Path) -> None:
    text = path.read_text()
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert links and all((path.parent / link).exists() for link in links)
