"""What the engine core has the process do besides calls; what concerns one topic alone is there."""

from enum import StrEnum
from typing import ClassVar, Literal

import msgspec

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.control import BuildResponse, ControlResponse, OutputResponse, SafeHeadResponse
from rollup_node.stages.messages.engine import AttributesResult, EngineStatus, L2BlocksResponse, PipelineStart
from rollup_node.stages.messages.log_fields import Fields
from rollup_node.stages.messages.p2p import PayloadResponse
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, L2BlockRef

LogLevel = Literal["trace", "debug", "info", "warn", "error"]


class Action(msgspec.Struct, frozen=True):
    """An instruction to the process, which performs it after the calls that are due, unless it `precedes_calls`."""

    precedes_calls: ClassVar[bool] = False


class LogLine(Action, frozen=True):
    """Write a line to the log."""

    level: LogLevel
    text: str
    code: Code | None = None
    fields: Fields = {}


class Observe(Action, frozen=True):
    """Add a value to a histogram."""

    metric: str
    value: float


class Lasts(Action, frozen=True):
    """Report that a condition of this name lasts: one more attempt has failed."""

    name: str
    code: Code
    text: str
    fields: Fields = {}


class Ends(Action, frozen=True):
    """Report that the condition of this name is over, if it was reported."""

    name: str
    text: str
    fields: Fields = {}


class FetchLasts(Action, frozen=True):
    """Show that the engine does not get a block that is so far above our tip; `name` is that of the problem."""

    name: str
    problem: str
    ahead: int


class FetchEnded(Action, frozen=True):
    """Show that no block is waited for any more under this name."""

    name: str


class ShowProblem(Action, frozen=True):
    """Show operators a problem under this name; None when it is over."""

    name: str
    problem: Problem | None


BlocksMessage = PipelineStart | AttributesResult | L2BlocksResponse
RpcResponse = ControlResponse | OutputResponse | SafeHeadResponse | BuildResponse


class Send(Action, frozen=True):
    """Send a message on `engine.blocks`, or a response on `engine.control` or `engine.payloads`."""

    peer: ProcessId
    message: BlocksMessage | RpcResponse | PayloadResponse


class PublishBlock(Action, frozen=True):
    """Have p2p sign and gossip a sealed block; the chain up to `derived` follows from L1 or is proven [FSR11]."""

    precedes_calls = True

    payload: ExecutionPayload
    parent: L2BlockRef
    derived: int


class RequestGap(Action, frozen=True):
    """Request the blocks between the unsafe head and `gap_end` from peers."""

    head: L2BlockRef
    gap_end: ExecutionPayload


class RequestLatestBlocks(Action, frozen=True):
    """Ask the p2p process for its latest blocks above the unsafe head."""

    head: BlockId


class RequestL1Blocks(Action, frozen=True):
    """Request L1 blocks `first` to `first + count - 1` for the sequencer; repeated until they arrive."""

    first: int
    count: int


class PublishStatus(Action, frozen=True):
    """Publish the state of heads and sequencer."""

    status: EngineStatus


class Severity(StrEnum):
    """Severity of a failure, as counted in `activity_errors_total`."""

    TEMPORARY = "temporary"
    RESET = "reset"


class WorkFailed(Action, frozen=True):
    """Report that work failed; it is tried again after `seconds`. `reason` tells apart what one task fails by."""

    task: str
    severity: Severity
    error: str
    seconds: float
    reason: str = ""
    code: Code | None = None


class WorkRecovered(Action, frozen=True):
    """Report that work succeeded which had failed."""

    task: str


class ResetStarted(Action, frozen=True):
    """Report a reset: the heads are cleared. `by_origin`: the tip's L1 origin is not canonical."""

    reason: str
    by_origin: bool


class AttributesProcessed(Action, frozen=True):
    """Report that derived attributes are in the chain, or dropped."""

    result: AttributesResult


class UnsafeBlockReceived(Action, frozen=True):
    """Report a block from gossip, a peer or an operator; `queued`: it is new, and not beyond a foreign fork [LFT5]."""

    payload: ExecutionPayload
    queued: bool


class UnsafeQueueChanged(Action, frozen=True):
    """Report the unsafe queue: blocks, the bytes they count as, and its lowest block."""

    length: int
    bytes: int
    lowest: ExecutionPayload | None
