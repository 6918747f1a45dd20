"""The folder graph: what counts as an import, cycles, levels, and the command."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from rollup_node.tools.dev.folder_graph import (
    Graph,
    cycles,
    levels,
    main,
)


def _write(root: Path, files: Mapping[str, str]) -> Path:
    """Write modules by their path; the root."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """node/start imports stages/engine/core, which imports ipc/wire; ipc has a module of its own."""
    files = {
        "ipc/clock.py": "import time\n",
        "ipc/wire/codec.py": "from rollup_node.ipc import clock\n",
        "stages/engine/core.py": "def run():\n    from rollup_node.ipc.wire import codec\n",
        "stages/engine/state.py": "",
        "node/start.py": "import rollup_node.stages.engine.core\nfrom rollup_node.stages.engine import state\n",
    }
    return _write(tmp_path, files)


def _graph(**edges: str) -> Graph:
    return {node: frozenset(targets) for node, targets in edges.items()}


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (_graph(a="b", b="a"), [["a", "b"]]),
        (_graph(a="b", b="c", c="a", d="a"), [["a", "b", "c"]]),
        (_graph(a="b", b="ac", c="d", d="c"), [["c", "d"], ["a", "b"]]),
        (_graph(a="bc", b="c", c=""), []),
    ],
)
def test_cycles(graph: Graph, expected: list[list[str]]) -> None:
    assert cycles(graph) == expected
    if expected:
        with pytest.raises(ValueError, match="cycle"):
            levels(graph)


def test_the_command_fails_on_a_cycle_and_names_its_imports(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(tree, {"ipc/wire/frames.py": "from rollup_node.stages.engine.state import State\n"})
    assert main([], tree) == 1
    assert capsys.readouterr().err.splitlines() == [
        "folders import each other in a cycle: ipc/wire, stages/engine",
        "  ipc.wire.frames imports stages.engine.state",
        "  stages.engine.core imports ipc.wire.codec",
    ]
