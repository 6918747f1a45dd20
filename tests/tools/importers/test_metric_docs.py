"""docs/metrics.md lists every metric."""

from pathlib import Path

from rollup_node.tools.commands.doc import page
from rollup_node.tools.importers.metric_docs import PAGE, main


def test_the_document_is_current() -> None:
    assert PAGE.read_text() == page(), "run python -m rollup_node.tools.importers.metric_docs"


def test_the_command_writes_the_file(tmp_path: Path) -> None:
    out = tmp_path / "page.md"
    assert main(["--out", str(out)]) == 0
    assert out.read_text() == page()
