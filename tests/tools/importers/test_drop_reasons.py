"""docs/drop-reasons.md lists every reason and effect."""

from pathlib import Path

from rollup_node.stages.derivation.reasons.table import REASONS
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.tools.importers.drop_reasons import MEANINGS, PAGE, main, page


def test_the_document_is_current() -> None:
    assert PAGE.read_text() == page(), "run python -m rollup_node.tools.importers.drop_reasons"


def test_every_effect_and_every_reason_has_its_row() -> None:
    names = [line.split("`")[1] for line in page().splitlines() if line.startswith("| `")]
    assert names == [*DropEffect, *(reason.name for reason in REASONS)]
    assert MEANINGS.keys() == set(DropEffect)


def test_the_command_writes_the_file(tmp_path: Path) -> None:
    out = tmp_path / "docs" / "page.md"
    assert main(["--out", str(out)]) == 0
    assert out.read_text() == page()
