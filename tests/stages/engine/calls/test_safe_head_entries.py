"""The changes that new safe heads and resets make, against a model that walks a sorted list of entries as op-node walks
its keys."""

import pytest

from rollup_node.stages.engine.calls.engine_api import GetBlockRef
from rollup_node.stages.engine.calls.safe_head_entries import (
    EntriesChange,
    FindSafeHeads,
    Gap,
    ResetSafeHeads,
    SafeHeadEntry,
    SafeHeadRecorder,
    reset,
)
from rollup_node.stages.engine.starts import el_sync
from rollup_node.stages.engine.starts.el_sync import RESEND_SECONDS
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import BlockId, L1BlockRef
from tests.support.chains.chain_fixture import chain_with
from tests.support.engine.el_sync_bench import LENGTH, Bench, syncing
from tests.support.engine.safe_heads import SafeHeadModel, block, entry, l2_ref

L1 = L1BlockRef(block(8).hash, 8, bytes(32), 0)


def test_with_a_supervisor_a_reset_without_a_matching_entry_leaves_a_gap() -> None:
    """[SDB15]"""
    write = ResetSafeHeads(l2_ref(9, origin=4), None, supervised=True)
    assert reset(write, None, entry(5, 6)) == EntriesChange(6, (), 9, Gap(5, None, 7, 9))
    assert reset(write, None, None) == EntriesChange(0, (), 9, Gap(0, 0, 1, 9))
    assert reset(write, entry(6, 12), None) == EntriesChange(6, (), 9, Gap(0, 0, 1, 9))
    assert reset(write, entry(6, 12), entry(5, 6)).gap is None


def test_entries_of_one_l1_block_that_wait_become_one() -> None:
    """[SDB2]: the one that is being written stays, and what it has is recorded with it."""
    recorder = SafeHeadRecorder(enabled=True)
    recorder.note_safe(l2_ref(4, 1), L1)
    recorder.note_safe(l2_ref(5, 1), L1)
    assert recorder.next() == entry(8, 5) and recorder.is_record
    recorder.note_safe(l2_ref(6, 1), L1)
    recorder.note_safe(l2_ref(7, 1), L1)
    assert recorder.next() == entry(8, 5) and not recorder.has(4)
    recorder.done()
    assert recorder.has(5) and not recorder.has(6)
    assert recorder.next() == entry(8, 7)
    recorder.done()
    assert recorder.has(6) and recorder.has(100) and not recorder.pending


def recorded(*numbers: int, other: int | None = None) -> SafeHeadModel:
    """Return a record of safe heads at L1 blocks of their own; from `other` on they are of another chain."""
    refs = chain_with().build(LENGTH)
    model = SafeHeadModel()
    for number in numbers:
        block_hash = refs[number].hash if other is None or number < other else bytes([number]) * 32
        entry = SafeHeadEntry(BlockId(200 + number, bytes([100 + number]) * 32), BlockId(number, block_hash))
        model.write(entry)
    return model


def synced(record: SafeHeadModel) -> Bench:
    """After a sync to block 10."""
    bench = syncing(record=record)
    bench.fetch()
    return bench


@pytest.mark.parametrize(
    ("record", "heads", "kept"),
    [
        (recorded(), (10, 6, 6), []),
        (recorded(1, 3), (10, 3, 3), [1, 3]),
        (recorded(1, 6, 8), (10, 8, 6), [1, 6, 8]),
        (recorded(1, 6, 7, 8, 9, other=8), (10, 7, 6), [1, 6, 7]),
        (recorded(1, 7, 9, other=9), (10, 7, 6), [1, 7]),
        (recorded(1, 5, 9, other=9), (10, 5, 5), [1, 5]),
        (recorded(1, 12), (10, 1, 1), [1]),
        (recorded(7, 12), (10, 7, 6), [7]),
        (recorded(3, other=3), (10, 6, 6), []),
    ],
)
def test_derivation_resumes_at_a_recorded_safe_head(
    record: SafeHeadModel, heads: tuple[int, int, int], kept: list[int]
) -> None:
    """Without one the heads are at block 6. The finalized head is never above the safe head."""
    bench = synced(record)
    assert bench.heads() == heads
    assert [entry.safe_head.number for entry in record.entries] == kept


def test_derivation_resumes_below_what_l1_has_replaced() -> None:
    """[SDB9]: the entry of an L1 block that it has no more would stay, as that block is not derived again."""
    record = recorded(1, 7, 8, 9)
    bench = syncing(record=record)
    bench.replaced_from, bench.l1_head = 208, 208
    with pytest.raises(TemporaryError, match="L1 does not have block 209 yet"):
        bench.fetch()
    assert len(record.entries) == 4, "it may be behind"
    bench.l1_head = 209
    bench.run()
    assert bench.heads() == (10, 7, 6)
    assert [entry.safe_head.number for entry in record.entries] == [1, 7]


def test_a_record_above_the_target_is_looked_for_after_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """[SDB9]: of a long chain that was given up."""
    monkeypatch.setattr(el_sync, "LOOKED_AT", 2)
    bench = synced(record := recorded(1, 6, 7, 8, 9, other=7))
    assert bench.heads() == (10, 6, 6)
    assert [entry.safe_head.number for entry in record.entries] == [1, 6]
    assert synced(recorded(1, 5, 7, 8, 9, other=7)).heads() == (10, 6, 6)


def test_a_record_where_the_engine_lacks_blocks_is_given_up() -> None:
    record = recorded(1, 3)
    bench = synced(record)
    assert bench.heads() == (10, 3, 3)
    bench.sync.lacks_block()
    bench.run()
    assert bench.heads() == (10, 6, 6) and not record.entries


def test_the_engine_may_lack_the_recorded_block_itself() -> None:
    record = recorded(1, 3)
    bench = syncing(record=record)
    bench.engine.fetch()
    bench.monotonic += RESEND_SECONDS
    while bench.next() != GetBlockRef(3):
        bench.answer()
    assert not bench.sync.take_unreadable(GetBlockRef(3))
    bench.run()
    assert bench.heads() == (10, 6, 6) and not record.entries


def test_a_wrong_answer_about_the_record_is_an_error() -> None:
    bench = syncing(record=recorded(3))
    bench.engine.fetch()
    bench.monotonic += RESEND_SECONDS
    while not isinstance(bench.next(), FindSafeHeads):
        bench.answer()
    with pytest.raises(TemporaryError, match="not one to this call"):
        bench.answer(True)
