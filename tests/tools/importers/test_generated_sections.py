"""Sections between markers, tables and diagrams."""

from pathlib import Path

import pytest

from rollup_node.tools.importers.generated_sections import rewrite, with_section, with_sections

TEXT = "before\n<!-- a: begin (generated) -->\nold\n<!-- a: end -->\nafter\n"


def test_a_section_is_replaced() -> None:
    replaced = with_section(TEXT, "a", "new\nlines")
    assert replaced == "before\n<!-- a: begin (generated) -->\nnew\nlines\n<!-- a: end -->\nafter\n"
    assert with_section(replaced, "a", "new\nlines") == replaced


@pytest.mark.parametrize("text", ["", "<!-- a: begin (generated) -->", TEXT.replace("end", "stop")])
def test_a_text_without_markers_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no markers <!-- a: begin"):
        with_section(text, "a", "new")


def test_all_sections_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(TEXT + TEXT.replace(" a:", " b:"))
    sections = {"a": lambda: "one", "b": lambda: "two"}
    rewrite(path, sections)
    assert path.read_text().count("old") == 0
    assert with_sections(path.read_text(), sections) == path.read_text()
