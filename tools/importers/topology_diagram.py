"""Draws the channel table as the Mermaid diagram of the README, between its two markers."""

import sys
from pathlib import Path

from rollup_node.ipc.bus.channels import Channel, Pattern
from rollup_node.stages.topology import CHANNELS

BEGIN, END = "<!-- channels: begin (generated) -->", "<!-- channels: end -->"
ARROWS = {Pattern.REQUEST: "<-->", Pattern.STATUS: "-.->", Pattern.WORK: "==>"}


def diagram() -> str:
    """The Mermaid text: solid lines for requests and responses, dotted for status, thick for work."""
    lines = ["```mermaid", "flowchart LR"]
    lines += [line for channel in CHANNELS for line in _edges(channel)]
    return "\n".join([*lines, "```"])


def _edges(channel: Channel) -> list[str]:
    return [f"  {channel.server} {ARROWS[channel.pattern]}|{channel.name}| {client}" for client in channel.clients]


def with_diagram(text: str) -> str:
    """The README's text with the diagram between its markers. Raises ValueError without them."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the text has no markers {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{diagram()}\n{END}{after}"


def main() -> int:
    """Rewrites README.md of the current directory."""
    path = Path("README.md")
    path.write_text(with_diagram(path.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
