"""Where derivation resumes after EL sync if safe heads are recorded [SDB9]."""

import pytest

from rollup_node.stages.engine.calls.engine_api import GetBlockRef
from rollup_node.stages.engine.el_sync.el_sync import RESEND_SECONDS
from rollup_node.stages.engine.safedb.entries import FindSafeHeads, RecordSafeHead, SafeHeadEntry, SafeHeadsWritten
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import BlockId
from tests.support.chains.chain_fixture import chain_with
from tests.support.engine.el_sync_bench import LENGTH, Bench, syncing
from tests.support.engine.safe_heads import SafeHeadModel


def recorded(*numbers: int, other: int | None = None) -> SafeHeadModel:
    """A record of safe heads at L1 blocks of their own; from `other` on they are of another chain."""
    refs = chain_with().build(LENGTH)
    model = SafeHeadModel()
    for number in numbers:
        block_hash = refs[number].hash if other is None or number < other else bytes([number]) * 32
        entry = SafeHeadEntry(BlockId(200 + number, bytes([100 + number]) * 32), BlockId(number, block_hash))
        model.write(RecordSafeHead(entry))
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
        (recorded(1, 6, 7, 8, 9, other=8), (10, 6, 6), [1, 6]),
        (recorded(1, 7, 9, other=9), (10, 7, 6), [1, 7]),
        (recorded(1, 5, 9, other=9), (10, 6, 6), []),
        (recorded(1, 12), (10, 6, 6), []),
        (recorded(7, 12), (10, 7, 6), [7]),
    ],
)
def test_derivation_resumes_at_a_recorded_safe_head(
    record: SafeHeadModel, heads: tuple[int, int, int], kept: list[int]
) -> None:
    """Without one the heads are at block 6. The finalized head is never above the safe head."""
    bench = synced(record)
    assert bench.heads() == heads
    assert [entry.safe_head.number for entry in record.entries] == kept


def test_a_recorded_safe_head_counts_before_the_engine_s_safe_label() -> None:
    """What became safe in between is not recorded."""
    record = recorded(2, 4)
    bench = Bench(record=record, kind="reth")
    bench.has(7, finalized=3, safe=7)
    bench.sync.offer(bench.payload(10))
    bench.run()
    bench.fetch()
    assert bench.heads() == (10, 4, 4)


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
        bench.answer(SafeHeadsWritten())
