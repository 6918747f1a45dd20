"""Blocks between engine and p2p (`p2p.blocks`, `engine.payloads`), peer counts, and rpc's requests (`p2p.control`)."""

import msgspec

from rollup_node.stages.messages.base import Message
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, Hash, L2BlockRef


class GapEnd(msgspec.Struct, frozen=True, array_like=True):
    """The lowest known block above a gap in the unsafe chain."""

    number: int
    hash: Hash
    parent_hash: Hash


class UnsafeBlocksRequest(Message, frozen=True, tag="UnsafeBlocksRequest"):
    """Asks for unsafe blocks by gossip, and for those between `head` and `gap_end` from peers.

    The next gap recovers a block that was lost. A restarted engine process gets the latest blocks of peers again."""

    head: int
    gap_end: GapEnd | None


class LatestBlocksRequest(Message, frozen=True, tag="LatestBlocksRequest"):
    """Asks for the latest blocks above the unsafe head, which the execution engine may have lost [SEQ39].

    They were sequenced by this node or gossiped. Repeated until `LatestBlocksResponse`."""

    head: BlockId


class LatestBlocksResponse(Message, frozen=True, tag="LatestBlocksResponse"):
    """The lowest of the latest blocks that descend from `head`, in order; none if the p2p process has none."""

    head: BlockId
    blocks: tuple[ExecutionPayload, ...]


class UnsafeBlock(Message, frozen=True, tag="UnsafeBlock"):
    """An unsafe block that passed gossip validation, or one that fills a gap."""

    payload: ExecutionPayload


class PublishRequest(Message, frozen=True, tag="PublishRequest"):
    """A block that this node sequenced, to be signed and gossiped, with its parent.

    At its making, the chain up to number `derived` followed from L1. Repeated until `PublishResponse`; `id` is
    unique within the requesting incarnation."""

    id: int
    payload: ExecutionPayload
    parent: L2BlockRef
    derived: int


class PublishResponse(Message, frozen=True, tag="PublishResponse"):
    """The block is published, or `error` says why it cannot be; publishing is not retried then."""

    id: int
    error: str | None


class PayloadRequest(Message, frozen=True, tag="PayloadRequest"):
    """Asks for the canonical L2 block of a number, on behalf of a peer."""

    id: int
    number: int


class PayloadResponse(Message, frozen=True, tag="PayloadResponse"):
    """The block, None if there is none; with an `error` it is unknown for now."""

    id: int
    payload: ExecutionPayload | None
    error: str | None


class PeerStatus(Message, frozen=True, tag="PeerStatus"):
    """Peers connected, and peers in the mesh of the topic that current blocks are gossiped on."""

    connected: int
    mesh: int


class PeerRequest(Message, frozen=True, tag="PeerRequest"):
    """A method `opp2p_<method>`; `argument` is its one argument as text, empty for none."""

    id: int
    method: str
    argument: str


class PublishSignedRequest(Message, frozen=True, tag="PublishSignedRequest"):
    """opstack_publishBlockV1: gossip a block with another signer's signature of 65 bytes; a PeerResponse answers."""

    id: int
    payload: ExecutionPayload
    signature: bytes


class PeerResponse(Message, frozen=True, tag="PeerResponse"):
    """The result as JSON text, or an `error` text with its JSON-RPC code."""

    id: int
    result: bytes
    error: str | None
    code: int
