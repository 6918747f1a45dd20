"""The ports of a local network: free ones, or a row from a base."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"


class PortInUse(OSError):
    """A port of the row asked for is taken; the text says which."""


@dataclass(frozen=True)
class NodePorts:
    """The listeners of one rollup node and its engine."""

    engine: int
    engine_auth: int
    rpc: int
    metrics: int


@dataclass(frozen=True)
class Ports:
    """All listeners of the network; the L1's Beacon API is on a port of its own."""

    l1: int
    beacon: int
    nodes: dict[str, NodePorts]


def choose(base: int, nodes: Sequence[str]) -> Ports:
    """`base` 0 takes free ports, else the row from `base` on, each checked."""
    count = 2 + 4 * len(nodes)
    numbers = iter(_free(count) if base == 0 else _row(base, count))
    l1, beacon = next(numbers), next(numbers)
    return Ports(
        l1, beacon, {name: NodePorts(next(numbers), next(numbers), next(numbers), next(numbers)) for name in nodes}
    )


def _free(count: int) -> list[int]:
    sockets = [socket.create_server((LOOPBACK, 0)) for _ in range(count)]
    try:
        return [int(taken.getsockname()[1]) for taken in sockets]
    finally:
        for taken in sockets:
            taken.close()


def _row(base: int, count: int) -> list[int]:
    for port in range(base, base + count):
        try:
            socket.create_server((LOOPBACK, port)).close()
        except OSError as error:
            raise PortInUse(
                f"port {port} is in use; give another --base-port ({count} ports in a row are needed) or 0"
            ) from error
    return list(range(base, base + count))
