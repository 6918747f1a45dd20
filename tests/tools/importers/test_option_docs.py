"""docs/options.md lists the option table."""

from pathlib import Path

from rollup_node.node.options.table import OPTIONS
from rollup_node.tools.importers.option_docs import OPTIONS_FILE, main, options_text


def test_the_document_is_current() -> None:
    assert OPTIONS_FILE.read_text() == options_text(), "run python -m rollup_node.tools.importers.option_docs"


def test_every_option_has_its_row() -> None:
    rows = [line for line in options_text().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == list(OPTIONS)


def test_the_command_writes_the_file(tmp_path: Path) -> None:
    out = tmp_path / "docs" / "options.md"
    assert main(["--out", str(out)]) == 0
    assert out.read_text() == options_text()
