"""Checks of the ports on which the node listens."""

import errno
import socket
from collections.abc import Sequence
from typing import NamedTuple

from rollup_node.node.checks.finding import Finding, error, ok
from rollup_node.stages.messages.codes import Code


class ListenAddress(NamedTuple):
    """A socket on which the node listens, and the options that set its address."""

    address_option: str
    port_option: str
    address: str
    port: int
    is_udp: bool = False

    @property
    def name(self) -> str:
        """Its port in words."""
        return f"UDP port {self.port}" if self.is_udp else f"port {self.port}"


def check_port(listener: ListenAddress) -> Finding:
    """Whether it is possible to listen there now; port 0 is always free."""
    address, port, check = listener.address, listener.port, f"--{listener.port_option}"
    if port == 0:
        return ok(check, "any free port")
    kind = socket.SOCK_DGRAM if listener.is_udp else socket.SOCK_STREAM
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(address, port, type=kind, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, kind, protocol) as opened:
            if not listener.is_udp:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind(target)
            if not listener.is_udp:
                opened.listen(1)
    except OSError as failure:
        if failure.errno == errno.EADDRINUSE:
            advice = f"stop the program that uses it, or give another --{listener.port_option}"
            return error(check, Code.PORT_TAKEN, f"{listener.name} is in use on {address}", advice)
        options = f"(--{listener.address_option}, --{listener.port_option})"
        text = f"cannot listen on {address} {listener.name} {options}: {failure.strerror or failure}"
        return error(check, Code.PORT_ADDRESS, text)
    return ok(check, f"{listener.name} is free on {address}")


def check_ports(listeners: Sequence[ListenAddress]) -> list[Finding]:
    """Check every listener of the node, also against each other."""
    taken: dict[tuple[int, bool], str] = {}
    found = []
    for listener in listeners:
        key, option = (listener.port, listener.is_udp), listener.port_option
        if listener.port and key in taken:
            text = f"--{taken[key]} and --{option} are both {listener.port}"
            found.append(error(f"--{option}", Code.PORT_TAKEN, text, "give one another port"))
        else:
            found.append(check_port(listener))
        taken[key] = option
    return found
