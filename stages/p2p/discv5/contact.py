"""How a node of the discovery network is reached, and distances between node ids."""

from typing import TYPE_CHECKING, NamedTuple

from rollup_node.stages.p2p.addresses.ip import IpAddress

if TYPE_CHECKING:
    from rollup_node.stages.p2p.discv5.enr import Enr

NodeId = bytes
"""keccak-256 of a node's public key."""


class Endpoint(NamedTuple):
    """An IP address and UDP or TCP port."""

    ip: IpAddress
    port: int

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if self.ip.version == 6 else f"{self.ip}:{self.port}"


class Contact(NamedTuple):
    """What a handshake needs to know of a node; `public_key` is compressed.

    `record` is None for a node known by its enode URL alone."""

    node_id: NodeId
    public_key: bytes
    endpoint: Endpoint
    record: "Enr | None" = None


def log_distance(first: NodeId, second: NodeId) -> int:
    """Return the logarithmic distance of two node ids: 0 for the same id, up to 256."""
    return (int.from_bytes(first, "big") ^ int.from_bytes(second, "big")).bit_length()


def xor_distance(node: NodeId, target: NodeId) -> int:
    """Return the XOR distance of two node ids, a sort key for closeness."""
    return int.from_bytes(node, "big") ^ int.from_bytes(target, "big")
