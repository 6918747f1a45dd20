"""The ports of a local network: free ones that are reserved for it, or consecutive ones."""

import socket
from dataclasses import astuple
from pathlib import Path

import pytest

from rollup_node.tools.devnet.files import NetworkFiles, write_secrets
from rollup_node.tools.devnet.ports import (
    LOOPBACK,
    PortInUse,
    Ports,
    address,
    bootnode,
    peer_options,
    reserved,
)

NODES = ("sequencer", "verifier")


def numbers(ports: Ports) -> list[int]:
    nodes = (port for name in NODES for port in astuple(ports.nodes[name]))
    services = (ports.signer, ports.conductor, ports.da_server, ports.forged_l1, ports.forged_beacon)
    return [ports.l1, ports.beacon, *nodes, *services, *(ports.status[name] for name in NODES)]


def test_reserved_ports_are_exclusive_and_can_be_listened_on() -> None:
    with reserved(0, NODES) as first, reserved(0, NODES) as second:
        assert len({*numbers(first), *numbers(second)}) == 38
        for port in numbers(first):
            with socket.create_server((LOOPBACK, port)), pytest.raises(OSError, match="in use"):
                socket.create_server((LOOPBACK, port))


def test_a_port_in_use_is_named() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        error = f"port {port} is in use; give another --base-port"
        with pytest.raises(PortInUse, match=error), reserved(port, NODES):
            pass


@pytest.fixture
def files(tmp_path: Path) -> NetworkFiles:
    files = NetworkFiles(tmp_path)
    write_secrets(files, ("sequencer", "verifier"))
    return files


def test_peers_and_signing(files: NetworkFiles) -> None:
    """A sequencer signs with a key or a signer and dials those before it; a verifier dials all."""
    write_secrets(files, ("sequencer-2",))
    ports = {"sequencer": 9000, "sequencer-2": 9002}
    first, second = (address(files, name, port) for name, port in ports.items())
    options = {name: peer_options(files, name, 9000, ports) for name in (*ports, "verifier")}
    assert [values.get("p2p.static") for values in options.values()] == [None, first, f"{first},{second}"]
    assert ["p2p.sequencer.key" in values for values in options.values()] == [True, True, False]
    assert "p2p.bootnodes" not in options["sequencer"]
    assert options["sequencer-2"]["p2p.bootnodes"] == bootnode(files, "sequencer", 9000)
    assert options["verifier"]["p2p.bootnodes"].count("enode://") == 2
    for values in options.values():
        assert (values["p2p.listen.ip"], values["p2p.netrestrict"]) == ("127.0.0.1", "127.0.0.0/8")
    signer = "http://127.0.0.1:9003"
    options = {name: peer_options(files, name, 9000, ports, signer) for name in (*ports, "verifier")}
    assert [values.get("signer.endpoint") for values in options.values()] == [signer, signer, None]
    assert not any("p2p.sequencer.key" in values for values in options.values())
