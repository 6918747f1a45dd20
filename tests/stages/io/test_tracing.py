"""What is recorded, in which trace, and that nothing is while tracing is off."""

import time
from collections.abc import Iterator

import pytest

from rollup_node.stages.io import tracing
from rollup_node.stages.io.tracing import MAX_SPANS, ROOT, Trace, parse_traceparent

HASH = bytes(range(32))
NODE = b"\xff" * 8
BLOCK = Trace(HASH[:16], bytes(byte ^ 0xFF for byte in HASH[16:24]))


@pytest.fixture(autouse=True)
def recording() -> Iterator[None]:
    tracing.enable(NODE)
    yield
    tracing.disable()


def test_a_blocks_spans_are_below_that_of_its_fetch() -> None:
    """[TRC2] In whichever process they are made; a span begins once, or waits for its block.

    Nodes share the trace, and no span."""
    tracing.end(ROOT, 7, HASH)
    for _ in range(2):
        tracing.begin(ROOT, 7)
    tracing.end(ROOT, 7, HASH, number=7)
    tracing.end(ROOT, 7, HASH)
    tracing.add("blobs", time.monotonic() - 1.0, None)
    tracing.assign(HASH)
    root, blobs = tracing.take(10)
    assert (root.trace, root.id) == (Trace(HASH[:16]), BLOCK.parent)
    assert blobs.trace == BLOCK
    assert root.attributes == {"number": 7} and root.began <= root.ended
    assert 1e9 <= blobs.ended - blobs.began < 2e9
    assert tracing.take(10) == []
    tracing.enable(bytes(8))
    tracing.add(ROOT, 0.0, HASH)
    (other,) = tracing.take(1)
    assert other.trace == root.trace and other.id != root.id


def test_a_call_is_in_the_trace_of_its_client() -> None:
    """[TRC3] And in one of its own without; what is no trace is none."""
    known = f"00-{'11' * 16}-{'22' * 8}-01"
    for header in (None, "", "x", known.replace("11", "00"), known.replace("22", "00"), known.replace("11", "zz")):
        assert parse_traceparent(header) is None
    assert parse_traceparent(f"ff{known[2:]}") is None and parse_traceparent(known.replace("11", "1")) is None
    tracing.called_by(known)
    tracing.add_call("rpc a", time.monotonic())
    tracing.called_by(None)
    tracing.add_call("rpc a", time.monotonic())
    first, second = tracing.take(10)
    assert first.trace == Trace(b"\x11" * 16, b"\x22" * 8)
    assert second.trace is not None and second.trace.parent == b"" and second.trace.id != first.trace.id


def test_memory_is_bounded() -> None:
    for number in range(MAX_SPANS + 10):
        tracing.begin("a", number)
        tracing.add("b", 0.0, HASH, number=number)
        tracing.add("c", 0.0, None)
    assert len(tracing.take(2 * MAX_SPANS)) == MAX_SPANS
    tracing.assign(HASH)
    assert len(tracing.take(2 * MAX_SPANS)) == MAX_SPANS
    tracing.end("a", 0, HASH)
    assert tracing.take(1) == [], "the oldest that was begun is forgotten"
