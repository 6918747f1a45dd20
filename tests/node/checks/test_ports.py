"""Ports that are free, taken, or of another machine."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from rollup_node.node.checks.finding import FindingLevel
from rollup_node.node.checks.ports import ListenAddress, check_port, check_ports
from rollup_node.stages.messages.codes import Code
from tests.support.servers.loopback import free_port, own_address

OWN = own_address()


@contextmanager
def listening() -> Iterator[int]:
    with socket.create_server((OWN, 0)) as server:
        yield server.getsockname()[1]


def listener(port: int, group: str = "rpc", address: str = OWN, is_udp: bool = False) -> ListenAddress:
    return ListenAddress(f"{group}.addr", f"{group}.port", address, port, is_udp)


def test_a_port_in_use_is_named() -> None:
    with listening() as port:
        found = check_port(listener(port))
    assert (found.level, found.code) == (FindingLevel.ERROR, Code.PORT_TAKEN)
    assert (found.text, found.remedy) == (
        f"port {port} is in use on {OWN}",
        "stop the program that uses it, or give another --rpc.port",
    )
    assert check_port(listener(port)).level is FindingLevel.OK
    assert check_port(listener(0)).level is FindingLevel.OK


def test_a_udp_port_in_use_is_named() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as taken:
        taken.bind((OWN, 0))
        port = taken.getsockname()[1]
        found = check_port(listener(port, "p2p", is_udp=True))
    assert found.code is Code.PORT_TAKEN and found.text == f"UDP port {port} is in use on {OWN}"
    assert check_port(listener(port, "p2p", is_udp=True)).level is FindingLevel.OK


def test_an_address_that_is_not_ours_is_named() -> None:
    found = check_port(listener(9999, address="192.0.2.1"))
    assert found.code is Code.PORT_ADDRESS
    assert found.text.startswith("cannot listen on 192.0.2.1 port 9999 (--rpc.addr, --rpc.port): ")


def test_two_servers_need_two_ports() -> None:
    assert not any(each.is_error for each in check_ports([listener(0), listener(0, "metrics")]))
    port = free_port()
    twice = check_ports([listener(port), listener(port, "metrics")])[1]
    assert twice.code is Code.PORT_TAKEN and twice.text == f"--rpc.port and --metrics.port are both {port}"
    assert not any(each.is_error for each in check_ports([listener(port), listener(port, "p2p", is_udp=True)]))
