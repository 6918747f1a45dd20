"""Answers of an execution engine and a conductor with faults, for walks over the engine core."""

from rollup_node.stages.engine.calls import engine_api as api
from rollup_node.stages.engine.calls.calls import (
    CallPurpose,
    CommitPayload,
    CoreAnswer,
    GetLeader,
    PendingCall,
    Read,
)
from rollup_node.stages.engine.calls.safe_head_entries import ResetSafeHeads, SafeHeadEntry

FAULTS = ("away", "unreadable", "error", "reset", "syncing", "accepted", "invalid", "odd")
FAILING: tuple[tuple[CallPurpose, type], ...] = (
    (CallPurpose.FORKCHOICE, api.ForkchoiceUpdate),
    (CallPurpose.ATTRIBUTES, api.ForkchoiceUpdate),
    (CallPurpose.ATTRIBUTES, api.GetPayload),
    (CallPurpose.ATTRIBUTES, api.NewPayload),
    (CallPurpose.UNSAFE_BLOCK, api.NewPayload),
    (CallPurpose.UNSAFE_BLOCK, api.ForkchoiceUpdate),
    (CallPurpose.SEQUENCER, api.ForkchoiceUpdate),
    (CallPurpose.SEQUENCER, api.GetPayload),
    (CallPurpose.SEQUENCER, api.NewPayload),
    (CallPurpose.COMMIT, CommitPayload),
    (CallPurpose.LEADER, GetLeader),
    (CallPurpose.EL_SYNC, api.GetBlockRef),
    (CallPurpose.EL_SYNC, api.NewPayload),
    (CallPurpose.EL_SYNC, api.ForkchoiceUpdate),
    (CallPurpose.SAFE_HEAD_WRITE, SafeHeadEntry),
    (CallPurpose.SAFE_HEAD_WRITE, ResetSafeHeads),
)
"""The calls that a walk has fail: the work and the kind of call."""


def bad_answer(pending: PendingCall, fault: str) -> CoreAnswer:
    """Return an answer of an engine with a fault; one that works where the call cannot have this fault."""
    call = pending.call
    if isinstance(call, GetLeader) and fault != "away":
        return False
    if isinstance(call, GetLeader | CommitPayload):
        return api.Unavailable("node is not the leader")
    if fault in ("away", "unreadable") and not isinstance(call, Read):
        return api.Unavailable("connection refused", unreadable=fault == "unreadable")
    is_forkchoice = isinstance(call, api.ForkchoiceUpdate)
    if not isinstance(call, api.ForkchoiceUpdate | api.GetPayload | api.NewPayload):
        return None if not isinstance(call, Read) else api.Unavailable("cannot be")
    if fault == "error" or isinstance(call, api.GetPayload):
        return api.ErrorAnswer(-32000, "internal error")
    if fault == "reset" and is_forkchoice:
        return api.ErrorAnswer(-38002, "invalid forkchoice state")
    status = {"syncing": "SYNCING", "accepted": "ACCEPTED", "invalid": "INVALID"}.get(fault, "ODD")
    return api.ForkchoiceAnswer(status) if is_forkchoice else api.PayloadAnswer(status)


def is_deposits_only(pending: PendingCall) -> bool:
    """Whether invalid would be critical: an engine that refuses deposits is no engine of this chain."""
    call = pending.call
    if isinstance(call, api.ForkchoiceUpdate):
        return call.attributes is not None and len(call.attributes.transactions) <= 1
    return isinstance(call, api.NewPayload) and len(call.payload.transactions) <= 1
