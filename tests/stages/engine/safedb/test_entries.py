"""The changes that new safe heads and resets make, against a model that walks a sorted list of entries as op-node walks
its keys."""

from rollup_node.stages.engine.safedb.entries import (
    EntriesChange,
    Gap,
    RecordSafeHead,
    ResetSafeHeads,
    SafeHeadRecorder,
    reset,
)
from rollup_node.stages.protocol.types import L1BlockRef
from tests.support.engine.safe_heads import block, entry, l2_ref

L1 = L1BlockRef(block(8).hash, 8, bytes(32), 0)


def test_with_a_supervisor_a_reset_without_a_matching_entry_leaves_a_gap() -> None:
    """[SDB15]"""
    write = ResetSafeHeads(l2_ref(9, origin=4), None, supervised=True)
    assert reset(write, None, entry(5, 6)) == EntriesChange(6, (), 9, Gap(5, None, 7, 9))
    assert reset(write, None, None) == EntriesChange(0, (), 9, Gap(0, 0, 1, 9))
    assert reset(write, entry(6, 12), None) == EntriesChange(6, (), 9, Gap(0, 0, 1, 9))
    assert reset(write, entry(6, 12), entry(5, 6)).gap is None


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
