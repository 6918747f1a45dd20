"""The graph of folders: which folder's modules import which other folders, its levels and its cycles.

    python -m rollup_node.tools.dev.folder_graph                  # the folders by level: imports go downwards
    python -m rollup_node.tools.dev.folder_graph --imports        # the same, with what each folder imports
    python -m rollup_node.tools.dev.folder_graph stages/engine    # what a folder imports, and which folders import it

It fails when folders import each other in a cycle, and lists the imports that form it.
"""

import argparse
import ast
import functools
import gc
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

NAMESPACE = "rollup_node"
TOP_LEVEL = ("ipc", "stages", "node", "tools")
ROOT = Path(__file__).resolve().parents[2]
WIDTH = 120
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""The fields of a node that have statements, or nodes with statements."""

Graph = Mapping[str, frozenset[str]]
"""The nodes that each node imports."""


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Return the files of all modules by dotted name below the namespace; a package goes by the name of its folder."""
    result = {}
    for top in TOP_LEVEL:
        for path in sorted((root / top).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            result[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return result


def parsed(source: str) -> ast.Module:
    """Return the syntax tree of a file.

    Collections of garbage, which would go through its nodes, wait until it is there."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if was_enabled:
            gc.enable()


def imported_names(tree: ast.AST) -> set[str]:
    """Return the dotted names that a tree imports anywhere, also in functions.

    `from a import b` gives `a` and `a.b`."""
    names: set[str] = set()
    ahead = [tree]
    while ahead:
        node = ahead.pop()
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        for block in _BLOCKS:
            ahead += getattr(node, block, ())
    return names


@functools.cache
def names_imported_by(source: str) -> frozenset[str]:
    """Return the dotted names that a file imports anywhere; several graphs in one program parse it once."""
    return frozenset(imported_names(parsed(source)))


def module_graph(known: Mapping[str, Path]) -> dict[str, frozenset[str]]:
    """Which of the known modules each of them imports. Packages are left out: each module imports those above it."""
    graph = {}
    for name, path in known.items():
        inner = {
            imported.removeprefix(f"{NAMESPACE}.")
            for imported in names_imported_by(path.read_text())
            if imported.startswith(f"{NAMESPACE}.")
        }
        # `from package import name` also gives the package, which has no code of its own.
        targets = {target for target in inner if target in known and known[target].name != "__init__.py"}
        graph[name] = frozenset(targets - {name})
    return graph


def folder_of(module: str, known: Mapping[str, Path]) -> str:
    """Return the folder of a module, as a path from the root."""
    parts = module.split(".")
    return "/".join(parts if known[module].name == "__init__.py" else parts[:-1])


def folder_graph(known: Mapping[str, Path]) -> dict[str, frozenset[str]]:
    """Which other folders the modules of each folder import."""
    graph: dict[str, set[str]] = {folder_of(module, known): set() for module in known}
    for module, targets in module_graph(known).items():
        own = folder_of(module, known)
        graph[own] |= {folder_of(target, known) for target in targets} - {own}
    return {folder: frozenset(targets) for folder, targets in graph.items()}


def cycles(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components of more than one node (Tarjan's algorithm), each sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    result: list[list[str]] = []

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
            component = [stack.pop()]
            while component[-1] != node:
                component.append(stack.pop())
            if len(component) > 1:
                result.append(sorted(component))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return result


def levels(graph: Graph) -> list[list[str]]:
    """Return the nodes by level, highest first: a node's level is one above the highest that it imports.

    Raises ValueError for a graph with a cycle."""
    level: dict[str, int] = {}
    while len(level) < len(graph):
        ready = [node for node in graph if node not in level and graph[node] <= level.keys()]
        if not ready:
            raise ValueError("the graph has a cycle")
        for node in ready:
            level[node] = 1 + max((level[target] for target in graph[node]), default=-1)
    highest = max(level.values(), default=-1)
    return [sorted(node for node in graph if level[node] == item) for item in range(highest, -1, -1)]


def render(graph: Graph, imports: bool = False) -> Iterator[str]:
    """Yield the lines of a graph without cycles: the folders of each level, each with its imports if wanted."""
    ordered = levels(graph)
    for number, folders in zip(range(len(ordered) - 1, -1, -1), ordered, strict=True):
        if imports:
            yield f"level {number}"
            for folder in folders:
                yield f"  {folder}"
                yield from _wrapped(graph[folder], "      imports ")
        else:
            yield from _wrapped(folders, f"level {number:>2}  ")
    yield f"{len(graph)} folders on {len(ordered)} levels, no cycles"


def render_folder(graph: Graph, folder: str) -> Iterator[str]:
    """Yield the lines about one folder: what it imports, and which folders import it."""
    yield folder
    yield from _wrapped(graph[folder], "  imports     ")
    yield from _wrapped({item for item, targets in graph.items() if folder in targets}, "  imported by ")


def _wrapped(folders: Iterable[str], label: str) -> list[str]:
    text = ", ".join(sorted(folders))
    return textwrap.wrap(text, WIDTH, initial_indent=label, subsequent_indent=" " * len(label), break_on_hyphens=False)


def render_cycle(component: Sequence[str], known: Mapping[str, Path]) -> Iterator[str]:
    """Yield the lines about a cycle: its folders, and each import between them by module."""
    yield f"folders import each other in a cycle: {', '.join(component)}"
    graph = module_graph(known)
    for module in sorted(graph):
        own = folder_of(module, known)
        for target in sorted(graph[module]):
            if own in component and folder_of(target, known) in set(component) - {own}:
                yield f"  {module} imports {target}"


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Print the graph, or some folders of it; 1 when it has a cycle or there is no such folder."""
    parser = argparse.ArgumentParser(
        prog="python -m rollup_node.tools.dev.folder_graph", description="Prints which folders import which others."
    )
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="show these folders and who imports them")
    parser.add_argument("--imports", action="store_true", help="show what each folder imports")
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    known = modules(root)
    graph = folder_graph(known)
    if result := cycles(graph):
        for component in result:
            print("\n".join(render_cycle(component, known)), file=sys.stderr)
        return 1
    for folder in (wanted := [folder.rstrip("/") for folder in args.folders]):
        if folder not in graph:
            print(f"error: no folder {folder}", file=sys.stderr)
            return 1
    lines = (
        [line for folder in wanted for line in render_folder(graph, folder)] if wanted else render(graph, args.imports)
    )
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
