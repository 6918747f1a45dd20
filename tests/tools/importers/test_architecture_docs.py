"""The generated sections of docs/architecture.md are current, and what they are made from."""

import pytest

from rollup_node.tools.importers.architecture_docs import (
    ARCHITECTURE,
    SECTIONS,
    reduced,
)
from rollup_node.tools.importers.generated_sections import with_sections


def test_the_document_is_current() -> None:
    text = ARCHITECTURE.read_text()
    assert with_sections(text, SECTIONS) == text, "run `python -m rollup_node.tools.importers.architecture_docs`"


def test_implied_arrows_are_left_out() -> None:
    graph = {"a": frozenset("bc"), "b": frozenset("c"), "c": frozenset[str]()}
    assert reduced(graph) == {"a": {"b"}, "b": {"c"}, "c": frozenset()}
    with pytest.raises(ValueError, match="cycle"):
        reduced({"a": frozenset("b"), "b": frozenset("a")})
