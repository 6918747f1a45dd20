"""Progress of the node as log lines, made from its status [LOG7 to LOG10]."""

from typing import NamedTuple

from rollup_node.stages.messages.log_fields import FieldValue, Scalar, TypedText, seconds
from rollup_node.stages.protocol.texts import age
from rollup_node.stages.rpc.status.node_status import BlockStatus, NodeStatus, State

LINE_SECONDS = 12.0
MAX_TEXT = 300


class Line(NamedTuple):
    """One line at level info."""

    message: str
    fields: dict[str, FieldValue]


class Progress:
    """Decides which line is due. All times `now` are of one monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._state: State | None = None
        self._line_at: float | None = None
        self._sync_began: tuple[float, int | None] | None = None

    def step(self, status: NodeStatus, now: float) -> Line | None:
        """Return the line to write now, if one is due."""
        line = self._changed(status, now)
        if status.state is State.WAITING and not status.reasons:
            # What it waited for has come, and the state is about to change.
            return None
        if line is None and self._line_at is not None and now - self._line_at < LINE_SECONDS:
            return None
        self._line_at = now
        return line or Line(status.state.value, _fields(status))

    def _changed(self, status: NodeStatus, now: float) -> Line | None:
        """Take a new state; the line `caught up`, or one without a time limit."""
        if status.state is self._state:
            return None
        self._state, self._line_at = status.state, None
        safe = None if status.heads.safe is None else status.heads.safe.number
        if status.state is State.SYNCING and self._sync_began is None:
            self._sync_began = now, safe
        if status.state is not State.SYNCED or self._sync_began is None:
            return None
        (began, first), self._sync_began = self._sync_began, None
        took = now - status.state_age_s - began
        return None if took < LINE_SECONDS else Line("caught up", _caught_up(took, first, safe))


def _fields(status: NodeStatus) -> dict[str, FieldValue]:
    if status.state is State.SYNCING:
        fields = _syncing(status)
    elif status.state in (State.SYNCED, State.FOLLOWING):
        fields = _heads(status)
    else:
        fields = _waits_for(status) | _short_heads(status)
    if status.peers is not None:
        fields["peers"] = status.peers.connected
    if status.state is State.SYNCED and status.drops_1h is not None:
        fields["drops_1h"] = status.drops_1h
    return fields


def _syncing(status: NodeStatus) -> dict[str, FieldValue]:
    result: dict[str, FieldValue] = {}
    safe, progress = status.heads.safe, status.progress
    if safe is not None and progress.target_block is not None:
        text = f"{safe.number} of ~{progress.target_block}"
        result["safe"] = TypedText(text, safe_block=safe.number, target_block=progress.target_block)
        if progress.blocks_per_s is not None:
            result["speed"] = speed_text(progress.blocks_per_s)
        if progress.eta_s is not None:
            result |= seconds("eta", progress.eta_s)
    if progress.limited_by is not None:
        result["limited_by"] = progress.limited_by
    result |= {name: value for name, value in _short_heads(status).items() if name not in result}
    if status.l1_req_per_block is not None:
        result["l1_req_per_block"] = round(status.l1_req_per_block, 1)
    return result


def speed_text(rate: float) -> TypedText:
    """Return a speed as people read it; in JSON it is `blocks_per_s`."""
    text = f"{rate:.1f} blocks/s" if rate < 100 else f"{rate:.0f} blocks/s"
    return TypedText(text, blocks_per_s=round(rate, 2))


def _caught_up(took: float, first: int | None, last: int | None) -> dict[str, FieldValue]:
    result: dict[str, FieldValue] = {**seconds("took", took)}
    if first is not None and last is not None and last >= first and took > 0:
        result |= {"blocks": last - first, "mean": speed_text((last - first) / took)}
    return result


def _waits_for(status: NodeStatus) -> dict[str, FieldValue]:
    if not status.reasons:
        return {}
    # Many reasons may follow from one; `/readyz` has them all.
    others = {"others": len(status.reasons) - 1} if len(status.reasons) > 1 else {}
    return {"for": status.reasons[0][:MAX_TEXT], **others}


def _short_heads(status: NodeStatus) -> dict[str, FieldValue]:
    """Numbers without ages, as they are known."""
    short_heads: dict[str, FieldValue] = {}
    if status.heads.safe is not None:
        short_heads["safe"] = _number(status.heads.safe, "safe_block")
    head, current = status.l1.head, status.l1.current
    if head is not None and current is not None:
        both = f"{current.number}/{head.number}"
        short_heads["l1"] = TypedText(both, l1_current=current.number, l1_head=head.number)
    elif head is not None:
        short_heads["l1"] = _number(head, "l1_head")
    return short_heads


def _heads(status: NodeStatus) -> dict[str, FieldValue]:
    heads, l1 = status.heads, status.l1.head
    result: dict[str, FieldValue] = {}
    if heads.unsafe is not None:
        result["unsafe"] = _with_age(heads.unsafe, "unsafe_block", "unsafe_age_s")
    if heads.safe is not None:
        result["safe"] = _with_age(heads.safe, "safe_block", "safe_age_s")
    if heads.finalized is not None:
        result["finalized"] = _number(heads.finalized, "finalized_block")
    if l1 is not None:
        result["l1"] = _with_age(l1, "l1_head", "l1_age_s")
    return result


def _number(block: BlockStatus, name: str) -> TypedText:
    return TypedText(str(block.number), **{name: block.number})


def _with_age(block: BlockStatus, name: str, age_name: str) -> TypedText:
    figures: dict[str, Scalar] = {name: block.number, age_name: block.age_s}
    return TypedText(f"{block.number} ({age(block.age_s)})", **figures)
