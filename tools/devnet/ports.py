"""The ports of a local network, free ones or consecutive ones from a base, and the options that join its nodes."""

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice

from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity, peer_id_text
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keys import private_key
from rollup_node.tools.devnet.files import SIGNER_KEY, NetworkFiles

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
    """The ports of the L1, its Beacon API, each node, the signer, the conductor, and the DA server.

    `status` are those of the nodes' status pages, `forged_l1` and `forged_beacon` those of an L1 with another chain."""

    l1: int
    beacon: int
    nodes: dict[str, NodePorts]
    signer: int
    conductor: int
    da_server: int
    status: dict[str, int]
    forged_l1: int
    forged_beacon: int


@contextmanager
def reserved(base: int, nodes: Sequence[str]) -> Iterator[Ports]:
    """Reserve ports while the context lasts: free ones for `base` 0, else consecutive ones from `base` on.

    Each is reserved by a socket that is bound with SO_REUSEADDR and never listens, so that the programs of the network
    can listen on it. Raises PortInUse."""
    with reserved_numbers(base, 7 + (PER_NODE + 1) * len(nodes)) as numbers:
        l1, beacon = next(numbers), next(numbers)
        node_ports = {name: NodePorts(*islice(numbers, PER_NODE)) for name in nodes}
        services = next(numbers), next(numbers), next(numbers)
        status = {name: next(numbers) for name in nodes}
        yield Ports(l1, beacon, node_ports, *services, status, *numbers)


@contextmanager
def reserved_numbers(base: int, count: int) -> Iterator[Iterator[int]]:
    """Reserve so many ports as `reserved` does. Raises PortInUse."""
    with ExitStack() as kept:
        yield iter([_reserve(base and base + offset, count, kept) for offset in range(count)])


def _reserve(port: int, count: int, kept: ExitStack) -> int:
    """Bind a port, or a free one for 0. Raises PortInUse when a program listens there."""
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


NETRESTRICT = "127.0.0.0/8"


def identity(files: NetworkFiles, name: str) -> NetworkIdentity:
    """Return the libp2p identity of a node, from its key file."""
    return NetworkIdentity(bytes.fromhex(files.peer_key(name).read_text().strip()))


def address(files: NetworkFiles, name: str, port: int) -> str:
    """Return the multiaddress of a node with its peer id."""
    return f"/ip4/{LOOPBACK}/tcp/{port}/p2p/{peer_id_text(identity(files, name).peer_id)}"


def bootnode(files: NetworkFiles, name: str, port: int) -> str:
    """Return the enode URL of a node."""
    point = private_key(identity(files, name).secret).public_key.to_bytes()
    return f"enode://{point.hex()}@{LOOPBACK}:{port}"


def peer_options(
    files: NetworkFiles, name: str, port: int, sequencer_ports: Mapping[str, int], signer: str | None = None
) -> dict[str, str]:
    """Return the P2P options of a node that listens on `port` by TCP and UDP.

    `sequencer_ports` are those of the sequencers; each dials those before it. `signer` is the URL of the signer,
    None where the sequencers have the key themselves."""
    options = {
        "p2p.listen.ip": LOOPBACK,
        "p2p.listen.tcp": str(port),
        "p2p.netrestrict": NETRESTRICT,
        "p2p.priv.path": str(files.peer_key(name)),
        "p2p.peerstore.path": str(files.peer_database(name)),
        "p2p.discovery.path": str(files.discovery_database(name)),
        "l1.runtime-config-reload-interval": "10s",
    }
    names = list(sequencer_ports)
    dialed = names[: names.index(name)] if name in names else names
    if dialed:
        options["p2p.static"] = ",".join(address(files, item, sequencer_ports[item]) for item in dialed)
        options["p2p.bootnodes"] = ",".join(bootnode(files, item, sequencer_ports[item]) for item in dialed)
    if name not in names:
        return options
    if signer is None:
        return options | {"p2p.sequencer.key": SIGNER_KEY.secret.hex()}
    return options | {
        "signer.endpoint": signer,
        "signer.address": to_hex(SIGNER_KEY.address),
        "signer.tls.enabled": "false",
    }
