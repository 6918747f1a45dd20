"""The graph of folders: which folder's modules import which other folder's, and the cycles in it.

`python -m rollup_node.tools.dev.folder_graph` prints the graph from top to bottom and fails when there is a cycle."""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

NAMESPACE = "rollup_node"
TOP_LEVEL = ("ipc", "stages", "node", "tools")
ROOT = Path(__file__).resolve().parents[2]

Graph = Mapping[str, frozenset[str]]


def modules(root: Path = ROOT) -> dict[str, Path]:
    """All modules by dotted name below the namespace; a package stands under its folder's name."""
    found = {}
    for top in TOP_LEVEL:
        for path in sorted((root / top).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported_names(tree: ast.AST) -> set[str]:
    """Dotted names that a tree imports anywhere; `from a import b` gives `a` and `a.b`."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def module_graph(known: Mapping[str, Path]) -> dict[str, frozenset[str]]:
    """Which of the modules `known` each of them imports; packages that merely lie on the way are left out."""
    graph = {}
    for name, path in known.items():
        inner = {
            imported.removeprefix(f"{NAMESPACE}.")
            for imported in imported_names(ast.parse(path.read_text()))
            if imported.startswith(f"{NAMESPACE}.")
        }
        targets = {target for target in inner if target in known and known[target].name != "__init__.py"}
        graph[name] = frozenset(targets - {name})
    return graph


def folder_of(module: str, known: Mapping[str, Path]) -> str:
    """The folder of a module, as a path from the root."""
    return known[module].parent.relative_to(_root_of(known[module], module)).as_posix()


def _root_of(path: Path, module: str) -> Path:
    return path.parents[len(module.split(".")) - (path.name != "__init__.py")]


def folder_graph(known: Mapping[str, Path]) -> dict[str, frozenset[str]]:
    """Which other folders the modules of each folder import."""
    graph: dict[str, set[str]] = {folder_of(module, known): set() for module in known}
    for module, targets in module_graph(known).items():
        own = folder_of(module, known)
        graph[own] |= {folder_of(target, known) for target in targets} - {own}
    return {folder: frozenset(targets) for folder, targets in graph.items()}


def cycles(graph: Graph) -> list[list[str]]:
    """The strongly connected sets of more than one node (Tarjan), each sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph[node]):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            part = [stack.pop()]
            while part[-1] != node:
                part.append(stack.pop())
            if len(part) > 1:
                found.append(sorted(part))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def downwards(graph: Graph) -> Iterator[tuple[str, frozenset[str]]]:
    """The folders with what they import, importers first; the graph must have no cycle."""
    importers = {node: sum(node in targets for targets in graph.values()) for node in graph}
    ready = sorted(node for node, count in importers.items() if count == 0)
    while ready:
        node = ready.pop(0)
        yield node, graph[node]
        for target in sorted(graph[node]):
            importers[target] -= 1
            if importers[target] == 0:
                ready.append(target)


def render(graph: Graph) -> Iterable[str]:
    """One line per folder: its name and the folders it imports."""
    for folder, targets in downwards(graph):
        yield f"{folder} -> {', '.join(sorted(targets)) or '(nothing)'}"


def main() -> int:
    """Prints the graph; 1 when it has a cycle."""
    graph = folder_graph(modules())
    if found := cycles(graph):
        for part in found:
            print(f"folders in a cycle: {', '.join(part)}", file=sys.stderr)
            for folder in part:
                print(f"  {folder} -> {', '.join(sorted(graph[folder] & set(part)))}", file=sys.stderr)
        return 1
    for line in render(graph):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
