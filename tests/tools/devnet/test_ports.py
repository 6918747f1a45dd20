"""The ports of a local network: free ones that are reserved for it, or consecutive ones."""

import socket
from dataclasses import astuple

import pytest

from rollup_node.tools.devnet.ports import LOOPBACK, PortInUse, Ports, reserved

NODES = ("sequencer", "verifier")


def numbers(ports: Ports) -> list[int]:
    nodes = (port for name in NODES for port in astuple(ports.nodes[name]))
    services = (ports.signer, ports.conductor, ports.da_server)
    return [ports.l1, ports.beacon, *nodes, *services, *(ports.status[name] for name in NODES)]


def test_reserved_ports_are_exclusive_and_can_be_listened_on() -> None:
    with reserved(0, NODES) as first, reserved(0, NODES) as second:
        assert len({*numbers(first), *numbers(second)}) == 34
        for port in numbers(first):
            with socket.create_server((LOOPBACK, port)), pytest.raises(OSError, match="in use"):
                socket.create_server((LOOPBACK, port))


def test_consecutive_ports_from_a_base() -> None:
    with reserved(0, NODES) as free:
        base = free.l1
    while True:
        try:
            with reserved(base, NODES) as row:
                assert numbers(row) == list(range(base, base + 17))
                break
        except PortInUse:
            base += 17


def test_a_port_in_use_is_named() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        error = f"port {port} is in use; give another --base-port"
        with pytest.raises(PortInUse, match=error), reserved(port, NODES):
            pass
