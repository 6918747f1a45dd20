"""Pages of documents that are generated as a whole are current."""

from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.tools.commands.doc import page
from rollup_node.tools.importers import code_docs, dashboard, drop_reasons, metric_docs, option_docs

PAGES: dict[str, tuple[Any, Path, str]] = {
    "code_docs": (code_docs, code_docs.PAGE, code_docs.page()),
    "drop_reasons": (drop_reasons, drop_reasons.PAGE, drop_reasons.page()),
    "metric_docs": (metric_docs, metric_docs.PAGE, page()),
    "option_docs": (option_docs, option_docs.OPTIONS_FILE, option_docs.options_text()),
    "dashboard": (dashboard, dashboard.DASHBOARD, dashboard.text()),
}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_current(name: str, tmp_path: Path) -> None:
    module, path, text = PAGES[name]
    assert path.read_text() == text, f"run python -m rollup_node.tools.importers.{name}"
    out = tmp_path / "page"
    assert module.main(["--out", str(out)]) == 0
    assert out.read_text() == text


def test_every_effect_of_a_drop_is_explained() -> None:
    assert drop_reasons.MEANINGS.keys() == set(DropEffect)
