"""The ports of a local network: free ones, or a row from a base."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice

LOOPBACK = "127.0.0.1"
PER_NODE = 5


class PortInUse(OSError):
    """A port of the row asked for is taken; the text says which."""


@dataclass(frozen=True)
class NodePorts:
    """The listeners of one rollup node and its engine; on `p2p` it listens by TCP and by UDP."""

    engine: int
    engine_auth: int
    rpc: int
    metrics: int
    p2p: int


@dataclass(frozen=True)
class Ports:
    """All listeners of the network; the L1's Beacon API is on a port of its own."""

    l1: int
    beacon: int
    nodes: dict[str, NodePorts]


@contextmanager
def reserved(base: int, nodes: Sequence[str]) -> Iterator[Ports]:
    """Ports that nobody else is given while the context lasts: `base` 0 takes free ones, else the row from `base` on.
    A bound socket that never listens keeps each; the programs of the network listen beside it."""
    count = 2 + PER_NODE * len(nodes)
    with ExitStack() as kept:
        numbers = iter([_reserve(base and base + offset, count, kept) for offset in range(count)])
        l1, beacon = next(numbers), next(numbers)
        yield Ports(l1, beacon, {name: NodePorts(*islice(numbers, PER_NODE)) for name in nodes})


def _reserve(port: int, count: int, kept: ExitStack) -> int:
    """Binds a port, or any for 0; PortInUse when somebody listens there."""
    try:
        if port:
            socket.create_server((LOOPBACK, port)).close()
        taken = kept.enter_context(socket.socket())
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((LOOPBACK, port))
    except OSError as error:
        raise PortInUse(
            f"port {port} is in use; give another --base-port ({count} ports in a row are needed) or 0"
        ) from error
    return int(taken.getsockname()[1])
