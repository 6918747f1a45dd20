"""Names of sockets."""

from rollup_node.ipc.bus.channels import socket_names
from tests.ipc.messages import CHANNELS, ECHO, STATE


def test_a_channel_has_a_socket_for_each_group() -> None:
    """[LIF33]"""
    by_name = {channel.name: channel for channel in CHANNELS}
    assert [by_name[ECHO].socket_name(group) for group in ("", "10")] == ["server.echo", "server.echo.10"]
    assert socket_names([by_name[ECHO], by_name[STATE]], ["10", "", "10"]) == {ECHO, STATE, f"{ECHO}.10", f"{STATE}.10"}
