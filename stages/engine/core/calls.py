"""The calls that the engine core hands out, and what each is made for."""

from enum import Enum
from typing import NamedTuple

import msgspec

from rollup_node.stages.engine.api.conductor_api import ConductorAnswer, ConductorCall
from rollup_node.stages.engine.api.engine_api import EngineAnswer, EngineCall, Unavailable
from rollup_node.stages.engine.api.follow_api import FollowStatus, GetFollowStatus
from rollup_node.stages.engine.machines.pipeline_start import GetL1BlockRef
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


class Work(Enum):
    """What a call is made for."""

    EL_SYNC = "EL sync"
    FORKCHOICE = "forkchoice"
    FOLLOW_HEAD = "follow head"
    ATTRIBUTES = "attributes"
    UNSAFE_BLOCK = "unsafe block"
    SEQUENCER = "sequencer"
    BUILD_API = "build API"
    REPLACEMENT = "replacement"
    COMMIT = "commit"
    LEADER = "leader"
    START = "start"
    FINALITY = "finality"
    FOLLOW = "follow source"
    FOLLOW_TARGET = "follow target"
    OVERLAP_BLOCKS = "overlap blocks"
    OUTPUT = "output"
    SAFE_HEAD = "safe head"
    SAFE_HEAD_WRITE = "safe head write"
    PEER_PAYLOAD = "peer payload"
    EL_SYNC_PROGRESS = "EL sync progress"

    @property
    def lane(self) -> Lane:
        """Where its calls are made."""
        return _LANES.get(self, Lane.HEADS)

    @property
    def task(self) -> str:
        """The name under which its failures are reported and counted."""
        return _TASKS.get(self, "drive")


_LANES = {
    Work.COMMIT: Lane.COMMIT,
    Work.LEADER: Lane.LEADER,
    Work.START: Lane.START,
    Work.FINALITY: Lane.FINALITY,
    Work.FOLLOW: Lane.FOLLOW,
    Work.FOLLOW_TARGET: Lane.FOLLOW_TARGET,
    Work.OVERLAP_BLOCKS: Lane.OVERLAP_BLOCKS,
    Work.OUTPUT: Lane.OUTPUTS,
    Work.SAFE_HEAD: Lane.SAFE_HEADS,
    Work.SAFE_HEAD_WRITE: Lane.SAFE_HEAD_WRITES,
    Work.PEER_PAYLOAD: Lane.PEER_PAYLOADS,
    Work.EL_SYNC_PROGRESS: Lane.EL_SYNC_PROGRESS,
}
_TASKS = {
    Work.UNSAFE_BLOCK: "unsafe blocks",
    Work.SEQUENCER: "sequence",
    Work.BUILD_API: "build API",
    Work.REPLACEMENT: "replacement",
    Work.FINALITY: "finalize",
    Work.FOLLOW: "follow source",
    Work.FOLLOW_TARGET: "follow target",
    Work.FOLLOW_HEAD: "follow source",
    Work.SAFE_HEAD_WRITE: "safe head database",
    Work.EL_SYNC: "EL sync",
    Work.EL_SYNC_PROGRESS: "EL sync progress",
}


Read = L2BlocksRequest | OutputRequest | PayloadRequest | SafeHeadRequest | L1AtSafeHeadRequest
"""Reads of the engine or the safe head database on behalf of other processes; the answer is the response."""

ReadAnswer = L2BlocksResponse | OutputResponse | PayloadResponse | SafeHeadResponse
CoreCall = EngineCall | ConductorCall | GetFollowStatus | GetL1BlockRef | Read | SafeHeadWrite | FindSafeHeads
CoreAnswer = (
    EngineAnswer
    | ConductorAnswer
    | FollowStatus
    | Unavailable
    | L1BlockRef
    | ReadAnswer
    | SafeHeadsWritten
    | FoundSafeHeads
)


class PendingCall(msgspec.Struct, frozen=True):
    """A call on its way: `number` counts calls, `epoch` counts the resets before it, `since` is when it was made."""

    number: int
    work: Work
    call: CoreCall
    epoch: int
    since: float
