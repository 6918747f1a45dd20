"""The calls that the engine core hands out, and what each is made for."""

from enum import Enum, StrEnum
from typing import NamedTuple

import msgspec

from rollup_node.stages.engine.calls.engine_api import EngineAnswer, EngineCall, Unavailable
from rollup_node.stages.engine.calls.safe_head_entries import (
    FindSafeHeads,
    FoundSafeHeads,
    SafeHeadWrite,
)
from rollup_node.stages.messages import control
from rollup_node.stages.messages.engine import L2BlocksRequest, L2BlocksResponse
from rollup_node.stages.messages.p2p import PayloadRequest, PayloadResponse
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, L1BlockRef, L2BlockRef


class GetLeader(msgspec.Struct, frozen=True):
    """conductor_leader; answered by whether this node leads."""


class CommitPayload(msgspec.Struct, frozen=True):
    """conductor_commitUnsafePayload; answered by True once the payload is stored."""

    payload: ExecutionPayload


ConductorCall = GetLeader | CommitPayload


class FollowReason(StrEnum):
    """Why a round of following the source ended without heads: what the log and its suppression tell apart [FSR12]."""

    NO_ANSWER = "no answer"
    HTTP_STATUS = "HTTP status"
    MALFORMED = "malformed answer"
    RPC_ERROR = "JSON-RPC error"
    WRONG_CHAIN = "wrong chain"
    NO_HEAD = "no head"
    GENESIS = "genesis"
    BLOCK_TIME = "block time"
    FUTURE = "future"
    HEAD_ORDER = "head order"
    HEAD_HASH = "two blocks at a height"
    HEAD_FIELDS = "block fields"
    FINALIZED = "finalized block"
    OTHER_BRANCH = "several branches"
    L1_UNKNOWN = "L1 block unknown"
    L1_MISMATCH = "L1 block not canonical"
    ENGINE_LACKS = "block missing in the engine"
    ENGINE_ANSWER = "engine's answer"
    ENGINE_REFUSES = "refused by the engine"


class GetFollowStatus(msgspec.Struct, frozen=True):
    """optimism_syncStatus; answered by FollowStatus. `check_chain`: first the chain [FSR8]."""

    check_chain: bool = False


class FollowStatus(msgspec.Struct, frozen=True):
    """The heads of the follow source. `current_l1` is the L1 block it derives from, None if it says none."""

    current_l1: BlockId | None
    local_safe: L2BlockRef
    safe: L2BlockRef
    finalized: L2BlockRef


class GetL1BlockRef(msgspec.Struct, frozen=True):
    """The canonical L1 block of a number, or None. `fresh`: references read before may be of another chain."""

    number: int
    fresh: bool


class Instant(NamedTuple):
    """The time of an event: Unix seconds, which rule when blocks are due, and monotonic seconds for pauses."""

    unix: float
    monotonic: float


class CallPurpose(Enum):
    """What a call is made for, and the name under which its failures are reported and counted.

    Calls of one purpose are made one at a time, and all that may move heads; others do not wait for each other."""

    EL_SYNC = "EL sync", "EL sync", True
    FORKCHOICE = "forkchoice", "drive", True
    FOLLOW_HEAD = "follow head", "follow source", True
    ATTRIBUTES = "attributes", "drive", True
    UNSAFE_BLOCK = "unsafe block", "unsafe blocks", True
    UNSAFE_GAP = "unsafe gap", "unsafe gap", True
    SEQUENCER = "sequencer", "sequence", True
    BUILD_API = "build API", "build API", True
    REPLACEMENT = "replacement", "replacement", True
    DENIED_BLOCK = "denied block", "denied block", True
    COMMIT = "commit"
    LEADER = "leader"
    START = "start"
    FINALITY = "finality", "finalize"
    VERIFIED_BLOCK = "verified block", "verified block"
    FOLLOW = "follow source", "follow source"
    FOLLOW_TARGET = "follow target", "follow target"
    OVERLAP_BLOCKS = "overlap blocks"
    OUTPUT = "output"
    SAFE_HEAD = "safe head"
    SAFE_HEAD_WRITE = "safe head write", "safe head database"
    PEER_PAYLOAD = "peer payload"
    EL_SYNC_PROGRESS = "EL sync progress", "EL sync progress"
    LOST_BLOCKS = "lost blocks", "lost blocks"

    task: str
    lane: "CallPurpose | None"
    """What its calls take turns with: None for those that may move heads, else those of the purpose alone."""

    def __new__(cls, text: str, task: str = "drive", moves_heads: bool = False) -> "CallPurpose":
        purpose = object.__new__(cls)
        purpose._value_, purpose.task, purpose.lane = text, task, None if moves_heads else purpose
        return purpose

    # Enum's is written in Python, and every step of the core looks up all lanes.
    __hash__ = object.__hash__


Read = L2BlocksRequest | control.OutputRequest | PayloadRequest | control.SafeHeadRequest | control.L1AtSafeHeadRequest
"""Reads of the engine or the safe head database on behalf of other processes; the answer is the response."""

ReadAnswer = L2BlocksResponse | control.OutputResponse | PayloadResponse | control.SafeHeadResponse
CoreCall = EngineCall | ConductorCall | GetFollowStatus | GetL1BlockRef | Read | SafeHeadWrite | FindSafeHeads
CoreAnswer = EngineAnswer | bool | FollowStatus | Unavailable | L1BlockRef | ReadAnswer | FoundSafeHeads


class PendingCall(msgspec.Struct, frozen=True):
    """A call on its way: `number` counts calls, `reset_count` the resets before it; `since` is when it was made."""

    number: int
    purpose: CallPurpose
    call: CoreCall
    reset_count: int
    since: float
