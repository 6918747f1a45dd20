"""The README's diagram shows the channel table."""

from pathlib import Path

import pytest

from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.importers.topology_diagram import BEGIN, END, diagram, with_diagram

README = Path(__file__).parents[3] / "README.md"


def test_the_readme_is_current() -> None:
    text = README.read_text()
    assert with_diagram(text) == text, "run `python -m rollup_node.tools.importers.topology_diagram`"


def test_every_channel_and_client_is_drawn() -> None:
    drawn = diagram()
    for channel in CHANNELS:
        for client in channel.clients:
            assert any(f"|{channel.name}| {client}" in line for line in drawn.splitlines())


def test_a_text_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="no markers"):
        with_diagram("nothing")
    assert with_diagram(f"a{BEGIN}x{END}b").startswith(f"a{BEGIN}\n```mermaid")
