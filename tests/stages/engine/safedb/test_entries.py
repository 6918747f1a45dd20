"""The changes that new safe heads and resets make, against a model that walks a sorted list of entries as op-node walks
its keys."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.engine.safedb.entries import (
    EntriesChange,
    Gap,
    RecordSafeHead,
    ResetSafeHeads,
    SafeHeadEntry,
    SafeHeadRecorder,
    record,
    reset,
)
from rollup_node.stages.protocol.types import BlockId, L1BlockRef, L2BlockRef
from tests.support.engine.safe_heads import block, entry, l2_ref

GENESIS = BlockId(0, b"\x77" * 32)
L1 = L1BlockRef(block(8).hash, 8, bytes(32), 0)


def test_a_new_safe_head_takes_the_place_of_its_l1_block() -> None:
    """[SDB2, SDB11]"""
    assert record(entry(5, 9)) == EntriesChange(5, (entry(5, 9),), 9)


def test_a_reset_without_a_matching_entry_deletes_all() -> None:
    """[SDB7]"""
    write = ResetSafeHeads(l2_ref(9, origin=4), None)
    assert reset(write, None, None) == reset(write, None, entry(3, 8)) == EntriesChange(0, (), 9)


def test_with_a_supervisor_a_reset_without_a_matching_entry_leaves_a_gap() -> None:
    """[SDB15]"""
    write = ResetSafeHeads(l2_ref(9, origin=4), None, supervised=True)
    assert reset(write, None, entry(5, 6)) == EntriesChange(6, (), 9, Gap(5, None, 7, 9))
    assert reset(write, None, None) == EntriesChange(0, (), 9, Gap(0, 0, 1, 9))
    assert reset(write, entry(6, 12), None) == EntriesChange(6, (), 9, Gap(0, 0, 1, 9))
    assert reset(write, entry(6, 12), entry(5, 6)).gap is None


def test_a_reset_keeps_the_l1_block_where_an_earlier_entry_is_left() -> None:
    """[SDB7]"""
    write = ResetSafeHeads(l2_ref(9, origin=4), None)
    found = reset(write, entry(6, 12), entry(5, 3))
    assert found == EntriesChange(6, (SafeHeadEntry(block(6), write.safe.id),), 9)
    assert reset(write, entry(6, 12), None) == EntriesChange(6, (), 9)


def test_a_reset_to_the_l2_genesis_records_it_at_l1_block_0() -> None:
    """[SDB8]"""
    write = ResetSafeHeads(l2_ref(0, origin=4), GENESIS)
    at_genesis = SafeHeadEntry(GENESIS, write.safe.id)
    assert reset(write, None, None) == EntriesChange(0, (at_genesis,), 0)
    assert reset(write, entry(6, 12), None) == EntriesChange(6, (at_genesis,), 0)
    both = (SafeHeadEntry(block(6), write.safe.id), at_genesis)
    assert reset(write, entry(6, 12), entry(5, 0)) == EntriesChange(6, both, 0)


@given(st.integers(0, 9), st.integers(0, 9), st.none() | st.integers(0, 9), st.booleans(), st.booleans())
def test_what_is_written_is_never_above_what_is_deleted(
    number: int, origin: int, first: int | None, has_earlier: bool, to_genesis: bool
) -> None:
    """The first entry that reached the safe head keeps its L1 block, and none after it is left."""
    safe: L2BlockRef = l2_ref(number, origin)
    found = None if first is None else entry(origin + first, number + first)
    change = reset(ResetSafeHeads(safe, GENESIS if to_genesis else None), found, entry(0, 0) if has_earlier else None)
    assert change.delete_from == (0 if found is None else found.l1_block.number)
    assert {put.safe_head for put in change.put} <= {safe.id}
    assert all(put.l1_block in (GENESIS, found and found.l1_block) for put in change.put)


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
