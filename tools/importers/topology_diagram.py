"""The channel table as a Mermaid diagram and as a Markdown table."""

from collections.abc import Iterator
from typing import Any, get_args

from rollup_node.ipc.bus.channels import Channel, Pattern
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.importers.generated_sections import mermaid, table

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
