"""Answers of an execution engine and a conductor with faults, for walks over the engine core."""

from rollup_node.stages.engine.calls import calls, engine_api
from rollup_node.stages.engine.calls.safe_head_entries import RecordSafeHead, ResetSafeHeads

FAULTS = ("away", "unreadable", "error", "reset", "syncing", "accepted", "invalid", "odd")
FAILING: tuple[tuple[calls.CallPurpose, type], ...] = (
    (calls.CallPurpose.FORKCHOICE, engine_api.ForkchoiceUpdate),
    (calls.CallPurpose.ATTRIBUTES, engine_api.ForkchoiceUpdate),
    (calls.CallPurpose.ATTRIBUTES, engine_api.GetPayload),
    (calls.CallPurpose.ATTRIBUTES, engine_api.NewPayload),
    (calls.CallPurpose.UNSAFE_BLOCK, engine_api.NewPayload),
    (calls.CallPurpose.UNSAFE_BLOCK, engine_api.ForkchoiceUpdate),
    (calls.CallPurpose.SEQUENCER, engine_api.ForkchoiceUpdate),
    (calls.CallPurpose.SEQUENCER, engine_api.GetPayload),
    (calls.CallPurpose.SEQUENCER, engine_api.NewPayload),
    (calls.CallPurpose.COMMIT, calls.CommitPayload),
    (calls.CallPurpose.LEADER, calls.GetLeader),
    (calls.CallPurpose.EL_SYNC, engine_api.GetBlockRef),
    (calls.CallPurpose.EL_SYNC, engine_api.NewPayload),
    (calls.CallPurpose.EL_SYNC, engine_api.ForkchoiceUpdate),
    (calls.CallPurpose.SAFE_HEAD_WRITE, RecordSafeHead),
    (calls.CallPurpose.SAFE_HEAD_WRITE, ResetSafeHeads),
)
"""The calls that a walk has fail: the work and the kind of call."""


def bad_answer(pending: calls.PendingCall, fault: str) -> calls.CoreAnswer:
    """Return an answer of an engine with a fault; one that works where the call cannot have this fault."""
    call = pending.call
    if isinstance(call, calls.GetLeader) and fault != "away":
        return calls.Leadership(False)
    if isinstance(call, calls.GetLeader | calls.CommitPayload):
        return engine_api.Unavailable("node is not the leader")
    if fault in ("away", "unreadable") and not isinstance(call, calls.Read):
        return engine_api.Unavailable("connection refused", unreadable=fault == "unreadable")
    is_forkchoice = isinstance(call, engine_api.ForkchoiceUpdate)
    if not isinstance(call, engine_api.ForkchoiceUpdate | engine_api.GetPayload | engine_api.NewPayload):
        return None if not isinstance(call, calls.Read) else engine_api.Unavailable("cannot be")
    if fault == "error" or isinstance(call, engine_api.GetPayload):
        return engine_api.ErrorAnswer(-32000, "internal error")
    if fault == "reset" and is_forkchoice:
        return engine_api.ErrorAnswer(-38002, "invalid forkchoice state")
    status = {"syncing": "SYNCING", "accepted": "ACCEPTED", "invalid": "INVALID"}.get(fault, "ODD")
    return engine_api.ForkchoiceAnswer(status) if is_forkchoice else engine_api.PayloadAnswer(status)


def is_deposits_only(pending: calls.PendingCall) -> bool:
    """Whether invalid would be critical: an engine that refuses deposits is no engine of this chain."""
    call = pending.call
    if isinstance(call, engine_api.ForkchoiceUpdate):
        return call.attributes is not None and len(call.attributes.transactions) <= 1
    return isinstance(call, engine_api.NewPayload) and len(call.payload.transactions) <= 1
