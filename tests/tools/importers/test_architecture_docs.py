"""The generated sections of docs/architecture.md are current, and what they are made from."""

import pytest

from rollup_node.tools.importers.architecture_docs import (
    ARCHITECTURE,
    SECTIONS,
    folder_diagram,
    folder_table,
    grouped,
    process_table,
    reduced,
    summary,
)
from rollup_node.tools.importers.generated_sections import with_sections


def test_the_document_is_current() -> None:
    text = ARCHITECTURE.read_text()
    assert with_sections(text, SECTIONS) == text, "run `python -m rollup_node.tools.importers.architecture_docs`"


def test_every_process_has_a_row() -> None:
    text = process_table()
    assert all(f"`stages/{role}/`" in text for role in ("l1", "blobs", "derivation", "compute", "engine", "p2p", "rpc"))
    assert "| `compute` | `--workers` |" in text


def test_folders_of_the_product_with_their_summary() -> None:
    rows = folder_table().splitlines()[2:]
    folders = [row.split("`")[1] for row in rows]
    assert folders == sorted(folders) and "stages/engine/core/" in folders
    assert not any(folder.startswith("tools") for folder in folders)
    assert all(row.split("|")[2].strip() for row in rows), "each package has a docstring"
    assert summary("tools/dev") == "Programs for development of the project itself."


def test_folders_are_joined_by_two_levels() -> None:
    graph = {
        "stages/p2p/host": frozenset({"stages/p2p", "stages/protocol"}),
        "stages/p2p": frozenset({"stages/p2p/nat"}),
        "stages/p2p/nat": frozenset[str](),
        "stages/protocol": frozenset[str](),
        "tools/dev": frozenset({"stages/protocol"}),
        "ipc": frozenset[str](),
    }
    assert grouped(graph) == {"stages/p2p": {"stages/protocol"}, "stages/protocol": frozenset()}


def test_implied_arrows_are_left_out() -> None:
    graph = {"a": frozenset("bc"), "b": frozenset("c"), "c": frozenset[str]()}
    assert reduced(graph) == {"a": {"b"}, "b": {"c"}, "c": frozenset()}
    with pytest.raises(ValueError, match="cycle"):
        reduced({"a": frozenset("b"), "b": frozenset("a")})


def test_the_diagram_has_the_top_level_folders() -> None:
    text = folder_diagram()
    assert [f'subgraph top_{top}["{top}/"]' in text for top in ("node", "stages", "ipc")] == [True] * 3
    assert 'stages_engine["stages/engine"]' in text
