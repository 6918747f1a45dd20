"""What the engine core has the process do besides calls: messages to send, the status to publish, and events that are
logged and counted."""

from enum import StrEnum

import msgspec

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.engine.api.heads import Heads
from rollup_node.stages.engine.machines.activation_hold import OtherUpgrade
from rollup_node.stages.engine.machines.attributes_handler import ProcessedAttributes
from rollup_node.stages.engine.machines.block_production import L1BlockRange
from rollup_node.stages.engine.machines.el_sync import ELSyncSkipped as ELSyncSkipped
from rollup_node.stages.engine.machines.el_sync import ELSyncStarted as ELSyncStarted
from rollup_node.stages.engine.machines.follow_source import FollowResult
from rollup_node.stages.engine.machines.sequencer import SequencedBlock
from rollup_node.stages.engine.machines.sync_progress import SyncEstimate
from rollup_node.stages.engine.machines.unsafe_queue import DroppedUnsafeBlock
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.control import BuildResponse, ControlResponse, OutputResponse, SafeHeadResponse
from rollup_node.stages.messages.engine import AttributesResult, EngineStatus, L2BlocksResponse, PipelineStart
from rollup_node.stages.messages.p2p import PayloadResponse
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, L1BlockRef, L2BlockRef

# --- messages ------------------------------------------------------------------------------------------------------


class SendToDerivation(msgspec.Struct, frozen=True):
    """A message on `engine.blocks`."""

    peer: ProcessId
    message: PipelineStart | AttributesResult | L2BlocksResponse


class SendToRpc(msgspec.Struct, frozen=True):
    """A response on `engine.control`."""

    peer: ProcessId
    message: ControlResponse | OutputResponse | SafeHeadResponse | BuildResponse


class SendToP2P(msgspec.Struct, frozen=True):
    """A response on `engine.payloads`."""

    peer: ProcessId
    message: PayloadResponse


class PublishBlock(msgspec.Struct, frozen=True):
    """A block that the sequencer sealed is signed and gossiped by the p2p process, with its parent. The chain up to
    number `derived` follows from L1, or from what a follow source has proven [FSR11]."""

    payload: ExecutionPayload
    parent: L2BlockRef
    derived: int


class RequestGap(msgspec.Struct, frozen=True):
    """The blocks between the unsafe head's number and `gap_end` are requested from peers."""

    head: L2BlockRef
    gap_end: ExecutionPayload


class RequestLatestBlocks(msgspec.Struct, frozen=True):
    """The p2p process is asked for its latest blocks above the unsafe head."""

    head: BlockId


class RequestL1Blocks(msgspec.Struct, frozen=True):
    """L1 blocks for the sequencer; repeated until they arrive."""

    blocks: L1BlockRange


class PublishStatus(msgspec.Struct, frozen=True):
    """The state of heads and sequencer."""

    status: EngineStatus


class ShowProblem(msgspec.Struct, frozen=True):
    """A problem for the operators under this name; None when the problem is over."""

    name: str
    problem: Problem | None


# --- events --------------------------------------------------------------------------------------------------------


class Severity(StrEnum):
    """Of a failure, as counted in `activity_errors_total`."""

    TEMPORARY = "temporary"
    RESET = "reset"


class WorkFailed(msgspec.Struct, frozen=True):
    """Work failed; it is tried again after `seconds`. `reason` tells apart what one task fails by."""

    task: str
    severity: Severity
    error: str
    seconds: float
    reason: str = ""
    code: Code | None = None


class WorkRecovered(msgspec.Struct, frozen=True):
    """Work that had failed this often in a row succeeded."""

    task: str
    failures: int


class ResetStarted(msgspec.Struct, frozen=True):
    """The heads are cleared and a new start is searched for. `by_origin`: the tip's L1 origin is not canonical."""

    reason: str
    by_origin: bool


class ResetRequested(msgspec.Struct, frozen=True):
    """Derivation cannot go on."""

    reason: str


class StartFound(msgspec.Struct, frozen=True):
    """Heads to start with, and where derivation starts to read L1."""

    heads: Heads
    base: BlockId


class DerivationRestarted(msgspec.Struct, frozen=True):
    """Derivation has a new start at the safe head in force."""

    start: PipelineStart


class AttributesProcessed(msgspec.Struct, frozen=True):
    """Derived attributes are in the chain, or dropped."""

    processed: ProcessedAttributes


class UpgradeDiffers(msgspec.Struct, frozen=True):
    """Derivation waits before a block with other upgrade transactions; `confirmed`: batches on L1 build on it."""

    other: OtherUpgrade
    confirmed: bool


class BundleChosen(msgspec.Struct, frozen=True):
    """The node starts again with the bundle of the chain."""

    other: OtherUpgrade


class UnsafeBlockReceived(msgspec.Struct, frozen=True):
    """From gossip, a peer or an operator; `queued`: it is new, and not beyond a foreign fork [LFT5]."""

    payload: ExecutionPayload
    queued: bool


class UnsafeQueueChanged(msgspec.Struct, frozen=True):
    """The unsafe queue: blocks, the bytes they count as, and its lowest block."""

    length: int
    bytes: int
    lowest: ExecutionPayload | None


class UnsafeBlockInserted(msgspec.Struct, frozen=True):
    """An unsafe block is the new tip; `queued` blocks remain."""

    block: L2BlockRef
    queued: int


class UnsafeBlockDropped(msgspec.Struct, frozen=True):
    """An unsafe block is invalid."""

    dropped: DroppedUnsafeBlock


class PayloadFetched(msgspec.Struct, frozen=True):
    """The engine answered to a sequencer's getPayload after `seconds`."""

    seconds: float


class LostBlocksFound(msgspec.Struct, frozen=True):
    """The engine lacks these latest blocks, from number `first` to `last`, which are put back."""

    first: int
    last: int


class LostBlocksEnded(msgspec.Struct, frozen=True):
    """The latest blocks are back, of which `count` were queued, or `reason` says why not all of them."""

    head: L2BlockRef
    count: int
    reason: str | None


class BuildFailed(msgspec.Struct, frozen=True):
    """The sequencer dropped the block in progress [SEQ12]."""


class BlockSequenced(msgspec.Struct, frozen=True):
    """A block of this sequencer is the new tip."""

    sequenced: SequencedBlock


class SequencerStarted(msgspec.Struct, frozen=True):
    """By an operator, on this tip."""

    head: L2BlockRef


class SequencerStopped(msgspec.Struct, frozen=True):
    """By an operator, after this tip."""

    head: L2BlockRef | None


class StopWaitSkipped(msgspec.Struct, frozen=True):
    """A stop does not wait for the engine, as the conductor does not confirm that this node leads [SEQ27]."""

    reason: str


class LeaderOverridden(msgspec.Struct, frozen=True):
    """By an operator: blocks are not committed to the conductor any more [CND7]."""


class SequencerWaits(msgspec.Struct, frozen=True):
    """The sequencer cannot build now."""

    reason: str


class BlockFinalized(msgspec.Struct, frozen=True):
    """A new finalized head."""

    block: L2BlockRef


class ELSyncFinished(msgspec.Struct, frozen=True):
    """The engine has the chain, and these heads; `seconds` since the first block."""

    heads: Heads
    seconds: float


class ELSyncProgressed(msgspec.Struct, frozen=True):
    """How far the engine's own sync is."""

    estimate: SyncEstimate


class FollowSourceRead(msgspec.Struct, frozen=True):
    """A round of following the source has ended, after a success with our safe head at this number."""

    result: FollowResult
    safe: int = 0


class FollowSourceBehind(msgspec.Struct, frozen=True):
    """The source's safe head is below ours, which stays."""

    block: L2BlockRef
    safe: L2BlockRef


class FetchLasts(msgspec.Struct, frozen=True):
    """The engine was pointed at a block that is so far above our tip, and does not get it; `name` is that of the
    problem for the operators."""

    name: str
    problem: str
    ahead: int


class FetchEnded(msgspec.Struct, frozen=True):
    """No block is waited for any more under this name."""

    name: str


class FollowTargetDropped(msgspec.Struct, frozen=True):
    """The engine, which lacks this block of a source that is away, is not waited for any more."""

    block: L2BlockRef
    reason: str


class FollowMoved(msgspec.Struct, frozen=True):
    """The tip is another one: the source's local safe head."""

    old: L2BlockRef
    new: L2BlockRef


class L1FinalityRegressed(msgspec.Struct, frozen=True):
    """L1's finalized block is lower than before and ignored."""

    block: L1BlockRef


Action = (
    SendToDerivation
    | SendToRpc
    | SendToP2P
    | PublishBlock
    | RequestGap
    | RequestLatestBlocks
    | RequestL1Blocks
    | PublishStatus
    | ShowProblem
    | WorkFailed
    | WorkRecovered
    | ResetStarted
    | ResetRequested
    | StartFound
    | DerivationRestarted
    | AttributesProcessed
    | UpgradeDiffers
    | BundleChosen
    | UnsafeBlockReceived
    | UnsafeQueueChanged
    | UnsafeBlockInserted
    | UnsafeBlockDropped
    | PayloadFetched
    | LostBlocksFound
    | LostBlocksEnded
    | BuildFailed
    | BlockSequenced
    | SequencerStarted
    | SequencerStopped
    | StopWaitSkipped
    | LeaderOverridden
    | SequencerWaits
    | BlockFinalized
    | ELSyncStarted
    | ELSyncSkipped
    | ELSyncFinished
    | ELSyncProgressed
    | FollowSourceRead
    | FollowSourceBehind
    | FetchLasts
    | FetchEnded
    | FollowTargetDropped
    | FollowMoved
    | L1FinalityRegressed
)
