"""Syntax trees of the project's files, for tests of its structure."""

import ast
import functools
from pathlib import Path

from rollup_node.tools.dev.folder_graph import parsed


@functools.lru_cache(maxsize=200)
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file, parsed once."""
    return parsed(path.read_text())
