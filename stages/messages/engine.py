"""Requests of derivation to the engine process (`engine.blocks`), and the heads that it publishes (`status.engine`)."""

from enum import StrEnum
from typing import NamedTuple

from rollup_node.stages.messages.base import Message, Problem
from rollup_node.stages.protocol.config import SystemConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import BlockId, Hash, L1BlockRef, L2BlockContent, L2BlockRef

EL_SYNC = "EL sync"
"""How the engine process's problem begins while the execution engine fetches the chain by itself [ELS1]."""


class StartRequest(Message, frozen=True, tag="StartRequest"):
    """Derivation is empty and requests its start.

    With a `reason` the engine process searches for a new start first; `reset` is the number of the start that
    derivation abandons (0: none)."""

    reset: int
    reason: str | None


STARTS_A_LIFE = 1 << 32
"""The numbers of the starts in one life of the engine process are the remainders by this, from 1 on."""


class PipelineStart(Message, frozen=True, tag="PipelineStart"):
    """The start of derivation: base and safe head with their configs [RS1, SYS27]; `reset` rises with each."""

    reset: int
    safe_head: L2BlockRef
    safe_config: SystemConfig
    base: BlockId
    base_config: SystemConfig


class BatchParent(NamedTuple):
    """The L2 block that a batch on L1 names as its parent: its hash, or the first 20 bytes of it."""

    number: int
    hash: bytes


class AttributesReady(Message, frozen=True, tag="AttributesReady"):
    """Payload attributes for the block after `parent`, derived from L1 block `derived_from`.

    `concluding` when no further block of the same batch follows [AQ6]. The deriver leaves `reset` and `sequence` at 0;
    sent, `sequence` counts within a reset. Repeated until `AttributesResult`.

    Attributes that were derived ahead have a `parent_config`: their parent is the block that will be built of the
    attributes before, carries this system config, and has hashes of zero. They count only if that block is accepted as
    predicted [ENG40].

    `sources` are the hashes of the L1 transactions of the batch, for a command that shows them; a node leaves it
    empty. `parents` are what batches that L1 has already name, from this block on, at the activation of a fork
    [UPG24]."""

    reset: int
    sequence: int
    parent: L2BlockRef
    attributes: PayloadAttributes
    derived_from: L1BlockRef
    concluding: bool
    parent_config: SystemConfig | None = None
    sources: tuple[Hash, ...] = ()
    parents: tuple[BatchParent, ...] = ()


class AttributesAhead(Message, frozen=True, tag="AttributesAhead"):
    """Attributes that were derived ahead, in the order of their sequence. Sent once."""

    blocks: tuple[AttributesReady, ...]


class AttributesOutcome(StrEnum):
    """The outcome of payload attributes."""

    ACCEPTED = "accepted"
    """A block with these attributes is in the chain."""
    REPLACED_BY_DEPOSITS = "replaced by deposits"
    """The payload was invalid; its deposits-only version is in the chain [ATT34 to ATT40]."""
    REFUSED = "refused"
    """The attributes were dropped."""


class AttributesResult(Message, frozen=True, tag="AttributesResult"):
    """The outcome of `AttributesReady` number `sequence`, which were derived from L1 block `derived_from`.

    `safe_head` is the (pending) safe head that results, after REFUSED the unchanged parent or the safe head before the
    span; `safe_config` is the system config in that block. `accepted` are the hashes of the blocks of the attributes
    right before, which were accepted; `held` counts the attributes that wait in the engine process.

    For the engine process alone, and never sent: `reason` says why the block is not as derived; `built` is the payload
    if one was built."""

    reset: int
    sequence: int
    outcome: AttributesOutcome
    safe_head: L2BlockRef
    safe_config: SystemConfig
    derived_from: L1BlockRef
    accepted: tuple[Hash, ...] = ()
    held: int = 0
    reason: Problem | None = None
    built: ExecutionPayload | None = None


class L2BlocksRequest(Message, frozen=True, tag="L2BlocksRequest"):
    """Asks for the local canonical L2 blocks `first` to `last`, which overlapping span batches are compared with."""

    reset: int
    first: int
    last: int


class L2BlocksResponse(Message, frozen=True, tag="L2BlocksResponse"):
    """Blocks `first` to `last` in ascending order; empty with an `error` where they are unavailable (undecided)."""

    reset: int
    first: int
    last: int
    blocks: tuple[L2BlockContent, ...]
    error: str | None


class Halting(Message, frozen=True, tag="Halting"):
    """The node halts: L1 requires a protocol version that it does not support [PRV6]."""


class ForkDoubt(NamedTuple):
    """Why the execution engine seems not to know a fork that begins at `time`, in Unix seconds."""

    fork: str
    time: int
    reason: str


class ForkDoubts(Message, frozen=True, tag="ForkDoubts"):
    """The forks to come that the execution engine seems not to know [ENG42]."""

    forks: tuple[ForkDoubt, ...]


class EngineStatus(Message, frozen=True, tag="EngineStatus"):
    """The L2 heads; None while the engine process searches for a start.

    `reset` numbers the current start. With an interop supervisor `cross_unsafe` is verified across chains, and
    `provided_l1` the L1 block that derivation may read next; without one the first is None and stands for `unsafe`.
    `current_l1` is that of the follow source, if one is followed. `sdm_opt_in` is what admin_setSdmPostExecOptIn has
    set. `transition` is the last one of the interop process for which this engine process has gone back, or found that
    it need not; 0 in the beginning of each life. `start` is the safe head with which the heads were found: later ones
    were derived since."""

    reset: int
    unsafe: L2BlockRef | None
    safe: L2BlockRef | None
    local_safe: L2BlockRef | None
    pending_safe: L2BlockRef | None
    finalized: L2BlockRef | None
    sequencer_enabled: bool
    sequencer_active: bool
    cross_unsafe: L2BlockRef | None = None
    provided_l1: L1BlockRef | None = None
    current_l1: L1BlockRef | None = None
    sdm_opt_in: bool = False
    transition: int = 0
    start: L2BlockRef | None = None
