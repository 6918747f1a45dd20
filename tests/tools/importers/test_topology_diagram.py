"""The channel table as diagram and as Markdown table."""

from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.importers.topology_diagram import channel_table, diagram


def test_every_channel_and_client_is_drawn() -> None:
    lines = diagram().splitlines()
    for channel in CHANNELS:
        for client in channel.clients:
            assert any(f"|{channel.name}| {client}" in line for line in lines)


def test_every_channel_has_a_row_with_its_messages() -> None:
    rows = channel_table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [channel.name for channel in CHANNELS]
    (blocks,) = [row for row in rows if "`l1.blocks`" in row]
    assert "| request | l1 | derivation | `L1BlocksRequest` | `L1BlockResponse`, `L1BlockUnavailable` |" in blocks
    assert not any("Union" in row or "|  |" in row for row in rows)
