"""The ports of a local network: free ones, or consecutive ones from a base."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice

LOOPBACK = "127.0.0.1"
PER_NODE = 5


class PortInUse(OSError):
    """A port is in use; the text names it."""


@dataclass(frozen=True)
class NodePorts:
    """The ports of one rollup node and its engine; `p2p` is both TCP and UDP."""

    engine: int
    engine_auth: int
    rpc: int
    metrics: int
    p2p: int


@dataclass(frozen=True)
class Ports:
    """The ports of the L1, its Beacon API, each node, the signer, the conductor, and the DA server; `status` are those
    of the nodes' status pages."""

    l1: int
    beacon: int
    nodes: dict[str, NodePorts]
    signer: int
    conductor: int
    da_server: int
    status: dict[str, int]


@contextmanager
def reserved(base: int, nodes: Sequence[str]) -> Iterator[Ports]:
    """Reserves ports while the context lasts: free ones for `base` 0, else consecutive ones from `base` on.

    Each is reserved by a socket that is bound with SO_REUSEADDR and never listens, so that the programs of the network
    can listen on it. Raises PortInUse."""
    count = 5 + (PER_NODE + 1) * len(nodes)
    with ExitStack() as kept:
        numbers = iter([_reserve(base and base + offset, count, kept) for offset in range(count)])
        l1, beacon = next(numbers), next(numbers)
        node_ports = {name: NodePorts(*islice(numbers, PER_NODE)) for name in nodes}
        services = next(numbers), next(numbers), next(numbers)
        yield Ports(l1, beacon, node_ports, *services, dict(zip(nodes, numbers, strict=True)))


def _reserve(port: int, count: int, kept: ExitStack) -> int:
    """Binds a port, or a free one for 0. Raises PortInUse when a program listens there."""
    try:
        if port:
            # SO_REUSEADDR below would bind beside a listening program without an error.
            socket.create_server((LOOPBACK, port)).close()
        taken = kept.enter_context(socket.socket())
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((LOOPBACK, port))
    except OSError as error:
        raise PortInUse(
            f"port {port} is in use; give another --base-port ({count} ports in a row are needed) or 0"
        ) from error
    return int(taken.getsockname()[1])
