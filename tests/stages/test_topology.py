"""The channels of the node."""

from rollup_node.ipc.bus.channels import Pattern
from rollup_node.stages.topology import CHANNELS


def test_names_follow_from_server_and_pattern() -> None:
    """Sockets and metrics have these names."""
    for channel in CHANNELS:
        server = channel.server
        if channel.pattern is Pattern.REQUEST:
            assert channel.name.startswith(f"{server}.")
        else:
            assert channel.name == f"{channel.pattern.value}.{server}"
        assert server not in channel.clients
        assert channel.up is not None or channel.pattern is Pattern.STATUS
    assert len({channel.name for channel in CHANNELS}) == len(CHANNELS)
