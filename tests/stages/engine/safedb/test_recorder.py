"""What is due to be written, and in which order."""

from rollup_node.stages.engine.safedb.entries import RecordSafeHead, ResetSafeHeads
from rollup_node.stages.engine.safedb.recorder import SafeHeadRecorder
from rollup_node.stages.protocol.types import L1BlockRef
from tests.support.engine.safe_heads import block, entry, l2_ref

L1 = L1BlockRef(block(8).hash, 8, bytes(32), 0)


def test_writes_are_due_in_their_order_until_they_are_done() -> None:
    """[SDB2, SDB7]"""
    recorder = SafeHeadRecorder(enabled=True)
    assert recorder.next() is None and not recorder.pending
    recorder.note_reset(l2_ref(3, 1), None)
    recorder.note_safe(l2_ref(4, 1), L1)
    assert recorder.next() == recorder.next() == ResetSafeHeads(l2_ref(3, 1), None)
    recorder.done()
    assert recorder.next() == RecordSafeHead(entry(8, 4)) and recorder.pending
    recorder.done()
    assert not recorder.pending


def test_a_reset_of_derivation_drops_what_is_due() -> None:
    recorder = SafeHeadRecorder(enabled=True)
    recorder.note_safe(l2_ref(4, 1), L1)
    recorder.clear()
    assert recorder.next() is None


def test_without_a_database_nothing_is_due() -> None:
    """[SDB1]"""
    recorder = SafeHeadRecorder(enabled=False)
    recorder.note_safe(l2_ref(4, 1), L1)
    recorder.note_reset(l2_ref(3, 1), block(0))
    assert recorder.next() is None and not recorder.pending
