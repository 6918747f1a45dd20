"""Updates the generated sections of docs/architecture.md: processes, channels and folders.

python -m rollup_node.tools.importers.architecture_docs
"""

import ast
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from rollup_node.ipc.bus.channels import Channel, Pattern
from rollup_node.node.system.process_table import PROCESSES, REQUIRED
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.dev.folder_graph import Graph, folder_graph, levels, modules
from rollup_node.tools.importers.generated_sections import ROOT, Sections, mermaid, rewrite, table

ARROWS = {Pattern.REQUEST: "<-->", Pattern.STATUS: "-.->", Pattern.WORK: "==>"}


def diagram() -> str:
    """Return the diagram: solid lines for requests and responses, dotted for status, thick for work."""
    return mermaid(["flowchart LR", *(line for channel in CHANNELS for line in _edges(channel))])


def _edges(channel: Channel) -> Iterator[str]:
    for client in channel.clients:
        yield f"  {channel.server} {ARROWS[channel.pattern]}|{channel.name}| {client}"


def channel_table() -> str:
    """Return a row per channel, with the messages from its clients and from its server."""
    rows = [
        (
            f"`{channel.name}`",
            channel.pattern.value,
            channel.server,
            ", ".join(channel.clients),
            ", ".join(_names(channel.up)) or "-",
            ", ".join(_names(channel.down)) or "-",
        )
        for channel in CHANNELS
    ]
    return table(("Channel", "Pattern", "Server", "Clients", "From clients", "From the server"), rows)


def _names(union: Any) -> list[str]:
    """Return the names of the messages in a union."""
    if union is None:
        return []
    return [f"`{message.__name__}`" for message in get_args(union) or (union,)]


ARCHITECTURE = ROOT / "docs" / "architecture.md"
TOP_LEVEL = ("node", "stages", "ipc")


def process_table() -> str:
    """Return a row per process of the process table, in the order of the start."""
    rows = [
        (
            f"`{kind.role}`",
            "`--workers`" if kind.numbered else "1" if kind.role in REQUIRED else "0 or 1",
            f"`stages/{kind.role}/`",
            summary(f"stages/{kind.role}"),
        )
        for kind in PROCESSES
    ]
    return table(("Process", "Copies", "Folder", "Task"), rows)


def folder_table() -> str:
    """Return a row per folder of the product with the first sentence of its package docstring."""
    result = [folder for folder in sorted(folder_graph(modules())) if folder.split("/")[0] in TOP_LEVEL]
    return table(("Folder", "Content"), [(f"`{folder}/`", summary(folder)) for folder in result])


def summary(folder: str) -> str:
    """Return the first sentence of a package's docstring."""
    docstring = ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text())) or ""
    return " ".join(docstring.split("\n\n")[0].split())


def folder_diagram() -> str:
    """Return the folders by two levels of their path.

    An arrow to each that is imported and not implied by other arrows."""
    graph = reduced(grouped(folder_graph(modules())))
    lines = ["flowchart TD"]
    for top in TOP_LEVEL:
        lines.append(f'  subgraph top_{top}["{top}/"]')
        lines += [f'    {_id(node)}["{node}"]' for node in sorted(graph) if node.split("/")[0] == top]
        lines.append("  end")
    lines += [f"  {_id(node)} --> {_id(target)}" for node in sorted(graph) for target in sorted(graph[node])]
    return mermaid(lines)


def grouped(graph: Graph) -> dict[str, frozenset[str]]:
    """Return the graph of the product's folders with each joined to its ancestor of two path components."""
    joined: dict[str, set[str]] = {}
    for folder, targets in graph.items():
        if folder.split("/")[0] in TOP_LEVEL:
            own = _group(folder)
            joined.setdefault(own, set()).update(set(map(_group, targets)) - {own})
    return {folder: frozenset(targets) for folder, targets in joined.items() if targets or _is_imported(folder, joined)}


def _group(folder: str) -> str:
    return "/".join(folder.split("/")[:2])


def _is_imported(folder: str, graph: Mapping[str, set[str]]) -> bool:
    return any(folder in targets for targets in graph.values())


def reduced(graph: Graph) -> dict[str, frozenset[str]]:
    """Return the transitive reduction of a graph. Raises ValueError for one with a cycle."""
    reachable: dict[str, frozenset[str]] = {}
    for level in reversed(levels(graph)):
        for node in level:
            reachable[node] = graph[node].union(*(reachable[target] for target in graph[node]))
    return {node: frozenset(_direct(graph[node], reachable)) for node in graph}


def _direct(targets: frozenset[str], reachable: Mapping[str, frozenset[str]]) -> Iterator[str]:
    for target in targets:
        if not any(target in reachable[other] for other in targets - {target}):
            yield target


def _id(folder: str) -> str:
    return folder.replace("/", "_")


SECTIONS: Sections = {
    "processes": process_table,
    "channels": channel_table,
    "folder diagram": folder_diagram,
    "folders": folder_table,
}


if __name__ == "__main__":
    rewrite(ARCHITECTURE, SECTIONS)
