"""docs/codes.md lists every code."""

from pathlib import Path

from rollup_node.stages.messages.codes import Code
from rollup_node.tools.importers.code_docs import PAGE, main, page


def test_the_document_is_current() -> None:
    assert PAGE.read_text() == page(), "run python -m rollup_node.tools.importers.code_docs"
    assert all(f"`{code.text}`" in page() for code in Code)


def test_the_command_writes_the_file(tmp_path: Path) -> None:
    out = tmp_path / "page.md"
    assert main(["--out", str(out)]) == 0
    assert out.read_text() == page()
