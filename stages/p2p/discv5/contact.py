"""How a node of the discovery network is reached, and how far apart two nodes are."""

from typing import TYPE_CHECKING, NamedTuple

from rollup_node.stages.p2p.addresses.ip import IpAddress

if TYPE_CHECKING:
    from rollup_node.stages.p2p.discv5.enr import Enr

NodeId = bytes
"""keccak-256 of a node's public key."""


class Endpoint(NamedTuple):
    """A UDP address."""

    ip: IpAddress
    port: int

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if self.ip.version == 6 else f"{self.ip}:{self.port}"


class Contact(NamedTuple):
    """All that a handshake needs; `public_key` is compressed. `record` is None for a node known by its URL alone."""

    node_id: NodeId
    public_key: bytes
    endpoint: Endpoint
    record: "Enr | None" = None


def log_distance(one: NodeId, other: NodeId) -> int:
    """The number of low bits in which the ids may differ: 0 for the same id, up to 256."""
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).bit_length()


def xor_distance(node: NodeId, target: NodeId) -> int:
    """A key to sort nodes by, nearest to the target first."""
    return int.from_bytes(node, "big") ^ int.from_bytes(target, "big")
