"""Sections of hand-written documents that are generated, each between two markers in the text."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

Sections = Mapping[str, Callable[[], str]]
"""The generator of each section by its name."""


def with_section(text: str, name: str, content: str) -> str:
    """Return the text with the content of a section replaced. Raises ValueError where the section has no markers."""
    begin, end = f"<!-- {name}: begin (generated) -->", f"<!-- {name}: end -->"
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise ValueError(f"the text has no markers {begin} and {end}")
    return f"{before}{begin}\n{content}\n{end}{after}"


def with_sections(text: str, sections: Sections) -> str:
    """Return the text with all sections replaced. Raises ValueError where one has no markers."""
    for name, generate in sections.items():
        text = with_section(text, name, generate())
    return text


def rewrite(path: Path, sections: Sections) -> None:
    """Update the sections of a file."""
    path.write_text(with_sections(path.read_text(), sections))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (heads, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(heads), *lines[1:]])


def mermaid(lines: Iterable[str]) -> str:
    """Return a Mermaid diagram as a Markdown code block."""
    return "\n".join(["```mermaid", *lines, "```"])
