"""Calls of the conductor [CND1] and of a follow source [FSR1], and their answers."""

from enum import StrEnum

import msgspec

from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, L2BlockRef


class GetLeader(msgspec.Struct, frozen=True):
    """conductor_leader; answered by Leadership."""


class CommitPayload(msgspec.Struct, frozen=True):
    """conductor_commitUnsafePayload; answered by Committed."""

    payload: ExecutionPayload


class Leadership(msgspec.Struct, frozen=True):
    """Whether this node is the leader."""

    is_leader: bool


class Committed(msgspec.Struct, frozen=True):
    """The conductor has stored the payload."""


ConductorCall = GetLeader | CommitPayload
ConductorAnswer = Leadership | Committed


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
    """optimism_syncStatus; answered by FollowStatus or FollowUnread.

    With `check_chain` the node's chain is compared before, as it is with the first call and after a failure [FSR8]."""

    check_chain: bool = False


class FollowStatus(msgspec.Struct, frozen=True):
    """The heads of the follow source. `current_l1` is the L1 block it derives from, None if it says none."""

    current_l1: BlockId | None
    local_safe: L2BlockRef
    safe: L2BlockRef
    finalized: L2BlockRef


class FollowUnread(msgspec.Struct, frozen=True):
    """The source does not answer, or not with a status of this chain."""

    reason: FollowReason
    text: str
    code: Code
