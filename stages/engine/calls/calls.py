"""The calls that the engine core hands out, and what each is made for."""

from enum import Enum
from typing import NamedTuple

import msgspec

from rollup_node.stages.engine.calls.engine_api import EngineAnswer, EngineCall, Unavailable
from rollup_node.stages.engine.calls.neighbour_api import (
    ConductorAnswer,
    ConductorCall,
    FollowStatus,
    FollowUnread,
    GetFollowStatus,
)
from rollup_node.stages.engine.safedb.entries import FindSafeHeads, FoundSafeHeads, SafeHeadsWritten, SafeHeadWrite
from rollup_node.stages.messages.control import (
    L1AtSafeHeadRequest,
    OutputRequest,
    OutputResponse,
    SafeHeadRequest,
    SafeHeadResponse,
)
from rollup_node.stages.messages.engine import L2BlocksRequest, L2BlocksResponse
from rollup_node.stages.messages.p2p import PayloadRequest, PayloadResponse
from rollup_node.stages.protocol.types import L1BlockRef


class GetL1BlockRef(msgspec.Struct, frozen=True):
    """The canonical L1 block of a number; answered by its reference, None if L1 has none yet.

    `fresh`: references read before may be of a chain before a reorg."""

    number: int
    fresh: bool


class Instant(NamedTuple):
    """The time of an event: Unix seconds, which rule when blocks are due, and monotonic seconds for pauses."""

    unix: float
    monotonic: float


class Lane(Enum):
    """Calls of one lane are made one at a time; lanes do not wait for each other."""

    HEADS = "heads"
    COMMIT = "commit"
    LEADER = "leader"
    START = "start"
    FINALITY = "finality"
    FOLLOW = "follow source"
    FOLLOW_TARGET = "follow target"
    OVERLAP_BLOCKS = "overlap blocks"
    OUTPUTS = "outputs"
    SAFE_HEADS = "safe heads"
    SAFE_HEAD_WRITES = "safe head writes"
    PEER_PAYLOADS = "peer payloads"
    EL_SYNC_PROGRESS = "EL sync progress"
    LOST_BLOCKS = "lost blocks"

    # Enum's is written in Python, and every step of the core looks up all lanes.
    __hash__ = object.__hash__


class CallPurpose(Enum):
    """What a call is made for."""

    EL_SYNC = "EL sync", Lane.HEADS, "EL sync"
    FORKCHOICE = "forkchoice"
    FOLLOW_HEAD = "follow head", Lane.HEADS, "follow source"
    ATTRIBUTES = "attributes"
    UNSAFE_BLOCK = "unsafe block", Lane.HEADS, "unsafe blocks"
    UNSAFE_GAP = "unsafe gap", Lane.HEADS, "unsafe gap"
    SEQUENCER = "sequencer", Lane.HEADS, "sequence"
    BUILD_API = "build API", Lane.HEADS, "build API"
    REPLACEMENT = "replacement", Lane.HEADS, "replacement"
    COMMIT = "commit", Lane.COMMIT
    LEADER = "leader", Lane.LEADER
    START = "start", Lane.START
    FINALITY = "finality", Lane.FINALITY, "finalize"
    FOLLOW = "follow source", Lane.FOLLOW, "follow source"
    FOLLOW_TARGET = "follow target", Lane.FOLLOW_TARGET, "follow target"
    OVERLAP_BLOCKS = "overlap blocks", Lane.OVERLAP_BLOCKS
    OUTPUT = "output", Lane.OUTPUTS
    SAFE_HEAD = "safe head", Lane.SAFE_HEADS
    SAFE_HEAD_WRITE = "safe head write", Lane.SAFE_HEAD_WRITES, "safe head database"
    PEER_PAYLOAD = "peer payload", Lane.PEER_PAYLOADS
    EL_SYNC_PROGRESS = "EL sync progress", Lane.EL_SYNC_PROGRESS, "EL sync progress"
    LOST_BLOCKS = "lost blocks", Lane.LOST_BLOCKS, "lost blocks"

    lane: Lane
    """Where its calls are made."""
    task: str
    """The name under which its failures are reported and counted."""

    def __new__(cls, text: str, lane: Lane = Lane.HEADS, task: str = "drive") -> "CallPurpose":
        work = object.__new__(cls)
        work._value_, work.lane, work.task = text, lane, task
        return work

    __hash__ = object.__hash__


Read = L2BlocksRequest | OutputRequest | PayloadRequest | SafeHeadRequest | L1AtSafeHeadRequest
"""Reads of the engine or the safe head database on behalf of other processes; the answer is the response."""

ReadAnswer = L2BlocksResponse | OutputResponse | PayloadResponse | SafeHeadResponse
CoreCall = EngineCall | ConductorCall | GetFollowStatus | GetL1BlockRef | Read | SafeHeadWrite | FindSafeHeads
CoreAnswer = (
    EngineAnswer
    | ConductorAnswer
    | FollowStatus
    | FollowUnread
    | Unavailable
    | L1BlockRef
    | ReadAnswer
    | SafeHeadsWritten
    | FoundSafeHeads
)


class PendingCall(msgspec.Struct, frozen=True):
    """A call on its way: `number` counts calls, `reset_count` the resets before it; `since` is when it was made."""

    number: int
    purpose: CallPurpose
    call: CoreCall
    reset_count: int
    since: float
