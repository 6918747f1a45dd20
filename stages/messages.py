"""Every message two processes exchange, declared once. Unions per channel stand in topology.py.

Needs are repeated until they are met; answers may come twice; nobody relies on a single message arriving.
"""

from typing import Any

import msgspec

from rollup_node.stages.protocol.config import SystemConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import (
    Address,
    BlobRef,
    BlockId,
    Hash,
    L1Block,
    L1BlockRef,
    L2BlockContent,
    L2BlockRef,
)


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all messages: the tag is the class name."""


class Health(Message, frozen=True, tag="Health"):
    """What is wrong with the publishing process now; empty when all is well."""

    problems: tuple[str, ...]


# --- status.l1 ---------------------------------------------------------------------------------------------------


class L1Heads(Message, frozen=True, tag="L1Heads"):
    """The L1 chain as l1 sees it; a label not known yet is None."""

    head: L1BlockRef | None
    safe: L1BlockRef | None
    finalized: L1BlockRef | None


class RuntimeConfig(Message, frozen=True, tag="RuntimeConfig"):
    """What L1's contracts say for now: who signs unsafe blocks (the zero address: nobody is set)."""

    unsafe_block_signer: Address


# --- l1.blocks (derivation asks) and l1.origins (engine asks) ------------------------------------------------------


class WantL1Blocks(Message, frozen=True, tag="WantL1Blocks"):
    """The canonical L1 blocks `first` to `first + count - 1`; l1 sends each when it has it. A later ask with a
    higher `first` says that all before it have arrived."""

    first: int
    count: int


class L1BlockFound(Message, frozen=True, tag="L1BlockFound"):
    """A verified canonical L1 block."""

    block: L1Block


class L1BlockMissing(Message, frozen=True, tag="L1BlockMissing"):
    """There is no such block yet (`head` is the newest visible number), or it cannot be fetched now."""

    number: int
    head: int
    problem: str | None


class WantL1Refs(Message, frozen=True, tag="WantL1Refs"):
    """The canonical L1 block `last` and up to `count` - 1 blocks below it, as references only: they cost an endpoint
    little, and are asked of it anew each time."""

    last: int
    count: int


class L1RefsFound(Message, frozen=True, tag="L1RefsFound"):
    """References that link to each other, in order, of which the highest is `last`; fewer than asked for where it takes
    too long or they do not link. None where L1 has no such block, or with a `problem`."""

    last: int
    refs: tuple[L1BlockRef, ...]
    problem: str | None


# --- blobs.contents (derivation asks) ------------------------------------------------------------------------------


class WantBlobs(Message, frozen=True, tag="WantBlobs"):
    """The blobs of some inbox transactions of one L1 block, in the order given; `urgent` when derivation waits."""

    block: L1BlockRef
    blobs: tuple[BlobRef, ...]
    urgent: bool


class BlobContent(msgspec.Struct, frozen=True, array_like=True):
    """An authentic blob, decoded: its data, or the rule of derivation-rules 4.4 that refuses it."""

    hash: Hash
    data: bytes | None
    refused: str | None


class BlobsFound(Message, frozen=True, tag="BlobsFound"):
    """The contents in the order asked for."""

    block_hash: Hash
    contents: tuple[BlobContent, ...]


class BlobsMissing(Message, frozen=True, tag="BlobsMissing"):
    """They cannot be had now; the need goes on being repeated. `not_found` when every endpoint said so."""

    block_hash: Hash
    not_found: bool
    problem: str


# --- engine.blocks (derivation asks) -------------------------------------------------------------------------------


class WantStart(Message, frozen=True, tag="WantStart"):
    """Derivation is empty and asks where to begin; a `reason` asks the engine to look for a new start first.
    `reset` is the number of the start that is no longer wanted (0: none was had)."""

    reset: int
    reason: str | None


class PipelineStart(Message, frozen=True, tag="PipelineStart"):
    """Where to begin: `base` and its config by derivation-rules RS1, and the safe head with the system config that
    stands in its own block (attributes-rules 3.4). `reset` counts starts and is higher for each new one."""

    reset: int
    safe_head: L2BlockRef
    safe_config: SystemConfig
    base: BlockId
    base_config: SystemConfig


class Derived(Message, frozen=True, tag="Derived"):
    """Attributes for the block after `parent`. `sequence` counts within a reset; repeated until `Applied`."""

    reset: int
    sequence: int
    parent: L2BlockRef
    attributes: PayloadAttributes
    derived_from: L1BlockRef
    concluding: bool


class Applied(Message, frozen=True, tag="Applied"):
    """What the engine made of `Derived` number `sequence`.

    accepted: `safe_head` is the new (pending) safe head. replaced: the payload was invalid and `safe_head` is its
    deposits-only version; derivation flushes its channel (attributes-rules 4.5). refused: the attributes were
    dropped and `safe_head` is the unchanged parent, or the safe head gone back to."""

    reset: int
    sequence: int
    outcome: str
    safe_head: L2BlockRef
    safe_config: SystemConfig


class WantL2Blocks(Message, frozen=True, tag="WantL2Blocks"):
    """The local canonical L2 blocks `first` to `last`, for overlap rules."""

    reset: int
    first: int
    last: int


class L2BlocksFound(Message, frozen=True, tag="L2BlocksFound"):
    """Blocks `first` to `last` in order; empty with a `problem` when they cannot be had (undecided)."""

    reset: int
    first: int
    last: int
    blocks: tuple[L2BlockContent, ...]
    problem: str | None


# --- status.derivation ---------------------------------------------------------------------------------------------


class Drop(msgspec.Struct, frozen=True, array_like=True):
    """Something that went no further, in words, and the L1 block that was being read. `needs_parent_hash` when a batch
    did not fit the hash of the block it would follow. `effect`, `reason` and `values` are what the text is made of."""

    rule: str
    text: str
    origin: L1BlockRef | None
    needs_parent_hash: bool
    effect: str = ""
    reason: str = ""
    values: dict[str, int | str] = {}

    def shown(self) -> dict[str, Any]:
        """As JSON, for those who are told why."""
        origin = self.origin
        return {
            "l1_block": None if origin is None else {"hash": f"0x{origin.hash.hex()}", "number": origin.number},
            "effect": self.effect,
            "rule": self.rule,
            "reason": self.reason,
            "text": self.text,
            "values": self.values,
        }


class Drops(Message, frozen=True, tag="Drops"):
    """How much was dropped in this life of the process, and the last of it, oldest first."""

    total: int
    latest: tuple[Drop, ...]


class DerivationStatus(Message, frozen=True, tag="DerivationStatus"):
    """How far the pipeline has read: `current_l1` is the origin it is at, `idle` that all of it is used up and the
    engine has every block of it."""

    reset: int
    current_l1: L1BlockRef | None
    idle: bool
    blocks_derived: int


# --- derivation.drops (rpc asks, and what stands in for the engine in `explain`) -----------------------------------


class WantDrops(Message, frozen=True, tag="WantDrops"):
    """The drops from number `first` on; those before it have arrived. `id` is unique to the asking incarnation."""

    id: int
    first: int


class DropsFound(Message, frozen=True, tag="DropsFound"):
    """Drops from number `first` on, higher than asked for where older ones are forgotten, lower where there are fewer;
    `total` is how many there were in this life of derivation when `id` was asked."""

    id: int
    first: int
    drops: tuple[Drop, ...]
    total: int


# --- status.engine -------------------------------------------------------------------------------------------------


class EngineStatus(Message, frozen=True, tag="EngineStatus"):
    """The L2 heads; None while a start is being looked for. `reset` is the number of the start in force."""

    reset: int
    unsafe: L2BlockRef | None
    safe: L2BlockRef | None
    local_safe: L2BlockRef | None
    pending_safe: L2BlockRef | None
    finalized: L2BlockRef | None
    sequencer_enabled: bool
    sequencer_active: bool


# --- engine.control (rpc asks) -------------------------------------------------------------------------------------


class StartSequencer(Message, frozen=True, tag="StartSequencer"):
    """admin_startSequencer; `id` is unique to the asking incarnation, a repeated id gets the first answer again."""

    id: int
    head: Hash


class StopSequencer(Message, frozen=True, tag="StopSequencer"):
    """admin_stopSequencer."""

    id: int


class ResetPipeline(Message, frozen=True, tag="ResetPipeline"):
    """admin_resetDerivationPipeline."""

    id: int


class WantOutput(Message, frozen=True, tag="WantOutput"):
    """optimism_outputAtBlock."""

    id: int
    number: int


class PostUnsafePayload(Message, frozen=True, tag="PostUnsafePayload"):
    """admin_postUnsafePayload: a block to be treated like one from gossip."""

    id: int
    payload: ExecutionPayload


class ControlDone(Message, frozen=True, tag="ControlDone"):
    """The answer to all but WantOutput: an `error` text, or the `head` where the call gives one."""

    id: int
    error: str | None
    head: Hash | None


class OutputFound(Message, frozen=True, tag="OutputFound"):
    """The parts of an output root with the heads of the same moment, or an `error` text."""

    id: int
    error: str | None
    block: L2BlockRef | None
    output_root: Hash
    state_root: Hash
    withdrawal_storage_root: Hash
    status: EngineStatus | None


# --- p2p.blocks (engine asks) --------------------------------------------------------------------------------------


class GapEnd(msgspec.Struct, frozen=True, array_like=True):
    """The known block above a gap in the unsafe chain."""

    number: int
    hash: Hash
    parent_hash: Hash


class WantBlocks(Message, frozen=True, tag="WantBlocks"):
    """Unsafe blocks are wanted as they come from gossip, and those above number `head` and below `gap_end` from peers.
    A lost block is healed by the next gap. A new life of the engine process is given the latest blocks again."""

    head: int
    gap_end: GapEnd | None


class BlockArrived(Message, frozen=True, tag="BlockArrived"):
    """An unsafe block that gossip's rules accept, or one that fills a gap."""

    payload: ExecutionPayload


class PublishBlock(Message, frozen=True, tag="PublishBlock"):
    """A block that this node sequenced, to be signed and gossiped; repeated until `PublishDone`. `id` is unique to the
    asking incarnation."""

    id: int
    payload: ExecutionPayload


class PublishDone(Message, frozen=True, tag="PublishDone"):
    """The block is published, or an `error` text says why it cannot be; it is not tried again then."""

    id: int
    error: str | None


# --- engine.payloads (p2p asks) ------------------------------------------------------------------------------------


class WantPayload(Message, frozen=True, tag="WantPayload"):
    """The canonical L2 block of a number, for a peer that asks for it."""

    id: int
    number: int


class PayloadFound(Message, frozen=True, tag="PayloadFound"):
    """The block, None if there is none; with a `problem` it cannot be said now."""

    id: int
    payload: ExecutionPayload | None
    problem: str | None


# --- status.p2p ----------------------------------------------------------------------------------------------------


class PeerStatus(Message, frozen=True, tag="PeerStatus"):
    """How many peers are connected, and in the mesh of the topic that blocks of now are gossiped on."""

    connected: int
    mesh: int


# --- p2p.control (rpc asks) ----------------------------------------------------------------------------------------


class PeerCall(Message, frozen=True, tag="PeerCall"):
    """A method `opp2p_<method>`; `argument` is its one argument as text, empty for none."""

    id: int
    method: str
    argument: str


class PeerAnswer(Message, frozen=True, tag="PeerAnswer"):
    """The result as JSON text, or an `error` text with its JSON-RPC code."""

    id: int
    result: bytes
    error: str | None
    code: int
