"""Spans of the way of an L1 block to the execution engine, and of RPC calls [TRC1 to TRC3].

Off until `enable`: then the functions record, and a process sends what they have recorded (otlp.py). The trace of a
block follows from its hash, so that processes need not tell each other of it."""

import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Hashable
from contextvars import ContextVar
from typing import NamedTuple

MAX_SPANS = 4096
"""Spans that wait to be sent; beyond that the oldest are dropped. As many may be begun and not ended."""

Value = str | int | bool
ROOT = "l1.block"


class Trace(NamedTuple):
    """The trace that a span belongs to, 16 bytes, and the span above it, 8 bytes or none."""

    id: bytes
    parent: bytes = b""


class Span(NamedTuple):
    """A span; times are in nanoseconds since the epoch. Without a trace it waits for `assign`."""

    trace: Trace | None
    id: bytes
    name: str
    began: int
    ended: int
    attributes: dict[str, Value]


class _Recorder:
    """What one process has recorded, and what it has begun by name and key."""

    def __init__(self, salt: int) -> None:
        self.salt = salt
        self.spans: deque[Span] = deque(maxlen=MAX_SPANS)
        self.begun: OrderedDict[tuple[str, Hashable], float] = OrderedDict()
        self.unassigned: deque[Span] = deque(maxlen=MAX_SPANS)

    def block_trace(self, block_hash: bytes) -> Trace:
        """Return the trace of an L1 block, and its first span in this node, which is that of its fetch [TRC2]."""
        root = int.from_bytes(block_hash[16:24], "big") ^ self.salt
        return Trace(block_hash[:16], root.to_bytes(8, "big"))

    def add(self, span: Span) -> None:
        (self.unassigned if span.trace is None else self.spans).append(span)


_recorder: _Recorder | None = None
_caller: ContextVar[Trace | None] = ContextVar("caller", default=None)


def enable(node: bytes) -> None:
    """Begin to record in this process of a node, which has an id of 8 bytes."""
    global _recorder
    _recorder = _Recorder(int.from_bytes(node, "big"))


def disable() -> None:
    """Record nothing, and forget what was."""
    global _recorder
    _recorder = None


def begin(name: str, key: Hashable) -> None:
    """Note when a span began; a second time for the same key changes nothing."""
    if _recorder is not None and (name, key) not in _recorder.begun:
        _recorder.begun[name, key] = time.monotonic()
        if len(_recorder.begun) > MAX_SPANS:
            _recorder.begun.popitem(last=False)


def end(name: str, key: Hashable, block_hash: bytes, **attributes: Value) -> None:
    """Record a span of an L1 block's way that was begun; nothing for one that was not."""
    if _recorder is not None and (began := _recorder.begun.pop((name, key), None)) is not None:
        add(name, began, block_hash, **attributes)


def add(name: str, began: float, block_hash: bytes | None, **attributes: Value) -> None:
    """Record a span of an L1 block's way, from a monotonic time until now; None: the block of the next `assign`."""
    if _recorder is None:
        return
    span_id, trace = secrets.token_bytes(8), None
    if block_hash is not None:
        trace = _recorder.block_trace(block_hash)
        if name == ROOT:
            span_id, trace = trace.parent, Trace(trace.id)
    _recorder.add(_span(trace, span_id, name, began, attributes))


def add_call(name: str, began: float, **attributes: Value) -> bytes:
    """Record the span of an RPC call, in the trace that its client named or in one of its own [TRC3].

    Returns the id of the trace, empty while nothing is recorded."""
    if _recorder is None:
        return b""
    trace = _caller.get() or Trace(secrets.token_bytes(16))
    _recorder.add(_span(trace, secrets.token_bytes(8), name, began, attributes))
    return trace.id


def assign(block_hash: bytes) -> None:
    """Give the spans that have none the trace of an L1 block."""
    if _recorder is not None:
        while _recorder.unassigned:
            _recorder.add(_recorder.unassigned.popleft()._replace(trace=_recorder.block_trace(block_hash)))


def called_by(traceparent: str | None) -> None:
    """Take the trace that the client of the calls of this request names in a header, if it does."""
    if _recorder is not None:
        _caller.set(parse_traceparent(traceparent))


def _span(trace: Trace | None, span_id: bytes, name: str, began: float, attributes: dict[str, Value]) -> Span:
    ended = time.time_ns()
    return Span(trace, span_id, name, ended - int((time.monotonic() - began) * 1e9), ended, attributes)


def take(most: int) -> list[Span]:
    """Remove and return the oldest spans that may be sent."""
    if _recorder is None:
        return []
    return [_recorder.spans.popleft() for _ in range(min(most, len(_recorder.spans)))]


def parse_traceparent(header: str | None) -> Trace | None:
    """Return the trace of a `traceparent` header of W3C Trace Context, None for none and for any other text."""
    parts = (header or "").split("-")
    if len(parts) < 4 or parts[0] == "ff" or [len(part) for part in parts[:4]] != [2, 32, 16, 2]:
        return None
    try:
        trace = Trace(bytes.fromhex(parts[1]), bytes.fromhex(parts[2]))
    except ValueError:
        return None
    return trace if any(trace.id) and any(trace.parent) else None
