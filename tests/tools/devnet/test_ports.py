"""The ports of a local network: free ones that are reserved for it, or consecutive ones."""

import socket
from dataclasses import astuple
from pathlib import Path

import pytest

from rollup_node.stages.p2p.addresses.multiaddr import parse_multiaddr
from rollup_node.tools.devnet.files import NetworkFiles, write_secrets
from rollup_node.tools.devnet.ports import (
    LOOPBACK,
    PortInUse,
    Ports,
    address,
    bootnode,
    identity,
    peer_options,
    reserved,
)

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


PORTS = {"sequencer": 9000}


@pytest.fixture
def files(tmp_path: Path) -> NetworkFiles:
    files = NetworkFiles(tmp_path)
    write_secrets(files, ("sequencer", "verifier"))
    return files


def test_addresses(files: NetworkFiles) -> None:
    own = identity(files, "sequencer")
    multiaddress = address(files, "sequencer", 9000)
    assert multiaddress.startswith("/ip4/127.0.0.1/tcp/9000/p2p/16Uiu2HA")
    assert parse_multiaddr(multiaddress)
    assert own.peer_id == identity(files, "sequencer").peer_id != identity(files, "verifier").peer_id
    enode = bootnode(files, "sequencer", 9000)
    assert enode.startswith("enode://") and enode.endswith("@127.0.0.1:9000")
    assert len(enode) == len("enode://") + 128 + len("@127.0.0.1:9000")


def test_the_sequencer_signs_and_has_no_static_peers(files: NetworkFiles) -> None:
    options = peer_options(files, "sequencer", 9000, PORTS)
    assert "p2p.sequencer.key" in options and "signer.endpoint" not in options
    assert "p2p.static" not in options and "p2p.bootnodes" not in options


def test_with_a_signer_the_sequencer_has_no_key(files: NetworkFiles) -> None:
    options = peer_options(files, "sequencer", 9000, PORTS, "http://127.0.0.1:9002")
    assert options["signer.endpoint"] == "http://127.0.0.1:9002" and "p2p.sequencer.key" not in options
    assert "signer.endpoint" not in peer_options(files, "verifier", 9001, PORTS, "http://127.0.0.1:9002")


def test_a_verifier_knows_the_sequencer(files: NetworkFiles) -> None:
    options = peer_options(files, "verifier", 9001, PORTS)
    assert options["p2p.static"] == address(files, "sequencer", 9000)
    assert options["p2p.bootnodes"] == bootnode(files, "sequencer", 9000)
    assert "p2p.sequencer.key" not in options


def test_each_sequencer_dials_those_before_it_and_a_verifier_all(files: NetworkFiles) -> None:
    write_secrets(files, ("sequencer-2",))
    ports = {**PORTS, "sequencer-2": 9002}
    first, second = (address(files, name, port) for name, port in ports.items())
    assert "p2p.static" not in peer_options(files, "sequencer", 9000, ports)
    options = peer_options(files, "sequencer-2", 9002, ports)
    assert options["p2p.static"] == first and "p2p.sequencer.key" in options
    options = peer_options(files, "verifier", 9001, ports)
    assert options["p2p.static"] == f"{first},{second}" and options["p2p.bootnodes"].count("enode://") == 2


@pytest.mark.parametrize("name", ["sequencer", "verifier"])
def test_no_packet_leaves_the_loopback_interface(files: NetworkFiles, name: str) -> None:
    options = peer_options(files, name, 9001, PORTS)
    assert (options["p2p.listen.ip"], options["p2p.netrestrict"]) == ("127.0.0.1", "127.0.0.0/8")
