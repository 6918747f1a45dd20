"""Answers of an execution engine and a conductor with faults, for walks over the engine core."""

from rollup_node.stages.engine.calls.calls import (
    CallPurpose,
    CommitPayload,
    CoreAnswer,
    GetLeader,
    Leadership,
    PendingCall,
    Read,
)
from rollup_node.stages.engine.calls.engine_api import (
    ErrorAnswer,
    ForkchoiceAnswer,
    ForkchoiceUpdate,
    GetBlockRef,
    GetPayload,
    NewPayload,
    PayloadAnswer,
    Unavailable,
)
from rollup_node.stages.engine.calls.safe_head_entries import RecordSafeHead, ResetSafeHeads

FAULTS = ("away", "unreadable", "error", "reset", "syncing", "accepted", "invalid", "odd")
FAILING: tuple[tuple[CallPurpose, type], ...] = (
    (CallPurpose.FORKCHOICE, ForkchoiceUpdate),
    (CallPurpose.ATTRIBUTES, ForkchoiceUpdate),
    (CallPurpose.ATTRIBUTES, GetPayload),
    (CallPurpose.ATTRIBUTES, NewPayload),
    (CallPurpose.UNSAFE_BLOCK, NewPayload),
    (CallPurpose.UNSAFE_BLOCK, ForkchoiceUpdate),
    (CallPurpose.SEQUENCER, ForkchoiceUpdate),
    (CallPurpose.SEQUENCER, GetPayload),
    (CallPurpose.SEQUENCER, NewPayload),
    (CallPurpose.COMMIT, CommitPayload),
    (CallPurpose.LEADER, GetLeader),
    (CallPurpose.EL_SYNC, GetBlockRef),
    (CallPurpose.EL_SYNC, NewPayload),
    (CallPurpose.EL_SYNC, ForkchoiceUpdate),
    (CallPurpose.SAFE_HEAD_WRITE, RecordSafeHead),
    (CallPurpose.SAFE_HEAD_WRITE, ResetSafeHeads),
)
"""The calls that a walk has fail: the work and the kind of call."""


def bad_answer(pending: PendingCall, fault: str) -> CoreAnswer:
    """Return an answer of an engine with a fault; one that works where the call cannot have this fault."""
    call = pending.call
    if isinstance(call, GetLeader) and fault != "away":
        return Leadership(False)
    if isinstance(call, GetLeader | CommitPayload):
        return Unavailable("node is not the leader")
    if fault in ("away", "unreadable") and not isinstance(call, Read):
        return Unavailable("connection refused", unreadable=fault == "unreadable")
    is_forkchoice = isinstance(call, ForkchoiceUpdate)
    if not isinstance(call, ForkchoiceUpdate | GetPayload | NewPayload):
        return None if not isinstance(call, Read) else Unavailable("cannot be")
    if fault == "error" or isinstance(call, GetPayload):
        return ErrorAnswer(-32000, "internal error")
    if fault == "reset" and is_forkchoice:
        return ErrorAnswer(-38002, "invalid forkchoice state")
    status = {"syncing": "SYNCING", "accepted": "ACCEPTED", "invalid": "INVALID"}.get(fault, "ODD")
    return ForkchoiceAnswer(status) if is_forkchoice else PayloadAnswer(status)


def is_deposits_only(pending: PendingCall) -> bool:
    """Whether invalid would be critical: an engine that refuses deposits is no engine of this chain."""
    call = pending.call
    if isinstance(call, ForkchoiceUpdate):
        return call.attributes is not None and len(call.attributes.transactions) <= 1
    return isinstance(call, NewPayload) and len(call.payload.transactions) <= 1
