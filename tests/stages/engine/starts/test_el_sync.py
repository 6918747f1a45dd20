"""EL sync with a model engine, in virtual time [ELS1 to ELS12]."""

from math import inf
from typing import Any

import msgspec
import pytest

from rollup_node.stages.engine.calls import engine_api as api
from rollup_node.stages.engine.calls.actions import LogLine
from rollup_node.stages.engine.calls.engine_identity import EngineIdentity
from rollup_node.stages.engine.calls.safe_head_entries import SafeHeadEntry
from rollup_node.stages.engine.heads.unsafe_chain import DroppedUnsafeBlock
from rollup_node.stages.engine.starts.el_sync import (
    LISTEN_SECONDS,
    RECENT_SECONDS,
    RESEND_SECONDS,
    STALE_TARGET_SECONDS,
    ELSyncState,
    offset_blocks,
)
from rollup_node.stages.messages.interop import ChainVerdict, Verdicts
from rollup_node.stages.protocol.errors import TemporaryError
from tests.support.engine.el_sync_bench import Bench, syncing
from tests.support.engine.safe_heads import SafeHeadModel


@pytest.mark.parametrize(
    ("seconds", "block_time", "blocks"), [(0, 2, 0), (1, 2, 1), (4, 2, 2), (43_200, 2, 21_600), (0.5, 2, 0), (-1, 2, 0)]
)
def test_the_offset_is_rounded_up_in_whole_seconds(seconds: float, block_time: int, blocks: int) -> None:
    assert offset_blocks(seconds, block_time) == blocks


@pytest.mark.option("l2.enginekind", by="kind")
@pytest.mark.parametrize("kind", ["reth", "erigon"])
def test_heads_known_before_do_not_go_back(kind: str) -> None:
    bench = Bench(kind, offset=100.0)
    bench.has(8, finalized=3, safe=5)
    bench.sync.offer(bench.payload(10))
    bench.run()
    bench.fetch()
    assert bench.heads() == (10, 5, 3)


def off_for_long(finalized: int | None, verified: int | None = None, *, is_run: bool = True) -> Bench:
    """Return a sync to block 10 of a node that was off for longer than the offset; block 3 was its safe head."""
    record = SafeHeadModel()
    bench = Bench("reth", offset=8.0, record=record)
    bench.has(4, finalized, safe=2)
    record.write(SafeHeadEntry(bench.chain.l1_ref(101).id, bench.refs[3].id))
    if verified is not None:
        verdict = ChainVerdict(bench.refs[verified].id, None, (), 0, None)
        bench.verification.take(Verdicts({bench.chain.rollup.l2_chain_id: verdict}, 0, None, 0))
    bench.sync.offer(bench.payload(10))
    bench.run()
    if is_run:
        bench.fetch()
    else:
        bench.engine.fetch()
        bench.monotonic += RESEND_SECONDS
    return bench


@pytest.mark.parametrize("verified", [None, 2])
def test_what_was_safe_before_a_sync_is_not_final_after_it(verified: int | None) -> None:
    """[ELS5, SDB9, VR14]: what was final stays so."""
    assert off_for_long(1, verified).heads() == (10, 3, 1)


def test_what_was_final_before_a_sync_may_be_pruned() -> None:
    """[ELS5, ELS12]"""
    bench = off_for_long(1, is_run=False)
    while bench.next() != api.GetBlockRef(1):
        bench.answer()
    assert not bench.sync.take_unreadable(api.GetBlockRef(1))
    bench.run()
    assert bench.heads() == (10, 3, 3)


@pytest.mark.parametrize(("verified", "final"), [(None, 3), (2, 2), (3, 3), (5, 3)])
def test_another_engine_has_nothing_final_that_is_not_verified(verified: int | None, final: int) -> None:
    """[ELS5, VR14]: one without finality, as after its loss."""
    assert off_for_long(None, verified).heads() == (10, 3, final)


def test_a_finalized_block_that_the_synced_chain_lacks_is_an_error_until_another_block_comes() -> None:
    bench = Bench("reth", offset=100.0)
    other = bench.chain.seal(bench.refs[3], bench.chain.attributes(bench.refs[3], 100, [bench.chain.user]))
    bench.has(8, finalized=3)
    bench.answer(bench.chain.ref(other))
    bench.sync.offer(bench.payload(9))
    bench.engine.fetch()
    with pytest.raises(TemporaryError, match="does not have the finalized block"):
        bench.run()
    assert bench.state() is ELSyncState.STARTED and bench.next() is None
    bench.sync.offer(bench.payload(10))
    assert bench.next() == api.NewPayload(bench.payload(10))


@pytest.mark.parametrize(
    ("kind", "has", "finalized", "offered", "state"),
    [
        ("geth", 8, 3, 10, ELSyncState.FINISHED),
        ("geth", 0, 0, 10, ELSyncState.STARTED),
        ("reth", 8, None, 7, ELSyncState.WILL_START),
    ],
    ids=["geth has finality", "genesis is finalized", "a lower block"],
)
def test_what_begins_a_sync(kind: str, has: int, finalized: int | None, offered: int, state: ELSyncState) -> None:
    bench = Bench(kind)
    bench.has(has, finalized)
    bench.sync.offer(bench.payload(offered))
    bench.run()
    assert bench.state() is state and (bench.sync.target is None) is (state is not ELSyncState.STARTED)
    assert bench.sync.needs_start is (state is ELSyncState.FINISHED) and bench.sync.heads is None
    skipped = [event for event in bench.sync.take_events() if isinstance(event, LogLine) and "skipping" in event.text]
    assert bool(skipped) is (state is ELSyncState.FINISHED)


def test_an_invalid_target_gives_way_to_the_next_block() -> None:
    bench = syncing()
    bench.sync.take_events()
    bench.monotonic += RESEND_SECONDS
    bench.answer(api.PayloadAnswer("INVALID", "bad block"))
    assert [type(event) for event in bench.sync.take_events()] == [DroppedUnsafeBlock]
    assert bench.next() is None and "another unsafe block" in bench.sync.waiting_for
    bench.sync.offer(bench.payload(9))
    assert bench.next() == api.NewPayload(bench.payload(9)), "also a lower one"
    bench.answer()
    bench.answer(api.ForkchoiceAnswer("INVALID", None, "bad ancestor"))
    assert [type(event) for event in bench.sync.take_events()] == [DroppedUnsafeBlock]


def test_an_unreadable_block_is_dropped() -> None:
    bench = Bench()
    bench.sync.offer(msgspec.structs.replace(bench.payload(10), transactions=()))
    bench.run()
    assert [type(event) for event in bench.sync.take_events()] == [LogLine, DroppedUnsafeBlock]


def test_a_tip_given_up_is_replaced_by_a_lower_block_after_a_minute() -> None:
    bench = syncing()
    bench.sync.offer(bench.payload(8))
    bench.monotonic += RESEND_SECONDS
    bench.run()
    assert bench.sync.target == bench.payload(10)
    stale_at = bench.monotonic - RESEND_SECONDS + STALE_TARGET_SECONDS
    bench.monotonic = stale_at - 1
    bench.run()
    assert bench.sync.wait_until() == stale_at, "before the target is sent again"
    bench.monotonic = stale_at
    bench.run()
    assert bench.sync.target == bench.payload(8) and bench.calls[-2] == api.NewPayload(bench.payload(8))


def test_errors_are_temporary_and_the_next_attempt_takes_the_newest_block() -> None:
    bench = syncing()
    bench.monotonic += RESEND_SECONDS
    bench.sync.offer(bench.payload(11))
    with pytest.raises(TemporaryError):
        bench.answer(api.ErrorAnswer(-32000, "busy"))
    bench.sync.offer(bench.payload(12))
    bench.sync.failed()
    assert bench.next() == api.NewPayload(bench.payload(12))
    bench.answer(api.PayloadAnswer("VALID"))
    assert bench.state() is ELSyncState.FINISHED_NOT_FINALIZED, "[ELS4]"
    with pytest.raises(TemporaryError):
        bench.answer(api.ErrorAnswer(-38002, "invalid forkchoice state"))
    bench.sync.failed()
    assert bench.state() is ELSyncState.STARTED
    with pytest.raises(TemporaryError):
        bench.answer(api.ForkchoiceAnswer("VALID"))


def test_the_offset_shrinks_where_the_engine_lacks_blocks() -> None:
    """An engine that prunes its history: the synced block itself is always there."""
    bench = syncing(offset=16.0)
    bench.engine.fetch()
    bench.monotonic += RESEND_SECONDS
    bench.answer()
    bench.answer()
    asked = []
    while isinstance(call := bench.next(), api.GetBlockRef):
        asked.append(call.name)
        bench.answer(None)
    assert asked == [2, 6, 8, 9] and bench.heads() == (10, 10, 10)


def test_the_offset_shrinks_for_one_try_when_blocks_below_are_missing() -> None:
    bench = syncing(offset=16.0)
    bench.sync.lacks_block()
    bench.fetch()
    assert bench.heads() == (10, 2, 2)
    bench.sync.lacks_block()
    bench.run()
    assert bench.heads() == (10, 6, 6)
    bench.sync.restart()
    bench.run()
    assert bench.heads() == (10, 2, 2), "the target stays; another reset has another reason"


def test_at_the_synced_block_itself_a_higher_one_is_synced_to() -> None:
    bench = syncing(offset=2.0)
    bench.fetch()
    bench.sync.offer(bench.payload(11))
    bench.sync.lacks_block()
    bench.run()
    assert bench.heads() == (10, 10, 10)
    bench.sync.lacks_block()
    assert bench.state() is ELSyncState.STARTED
    bench.run()
    assert bench.heads() == (11, 11, 11)


def test_an_engine_with_blocks_of_before_the_rollup_alone_is_an_empty_one() -> None:
    """Chains that were migrated to Bedrock: the first block of the engine has no L1 origin."""
    bench = Bench()
    bench.answer(None)
    bench.answer(None)
    assert bench.sync.take_unreadable(bench.next())
    assert bench.next() is None and bench.state() is ELSyncState.WILL_START
    bench.sync.offer(bench.payload(10))
    bench.run()
    assert bench.state() is ELSyncState.STARTED
    assert not bench.sync.take_unreadable(api.GetBlockRef(3))


@pytest.mark.parametrize(
    ("options", "head", "finalized", "age", "seconds"),
    [
        ({}, 0, None, RECENT_SECONDS + 1, inf),
        ({}, 0, None, 0, inf),
        ({}, 8, None, RECENT_SECONDS + 1, inf),
        ({}, 8, None, 0, LISTEN_SECONDS),
        ({"kind": "reth"}, 8, 3, RECENT_SECONDS + 1, LISTEN_SECONDS),
        ({"sequencer": True}, 0, None, 0, 0.0),
        ({"sequencer": True}, 8, None, 0, 0.0),
        ({"sequencer": True}, 8, None, RECENT_SECONDS + 1, LISTEN_SECONDS),
    ],
)
def test_how_long_a_first_block_is_waited_for(
    options: dict[str, Any], head: int, finalized: int | None, age: int, seconds: float
) -> None:
    bench = Bench(**options)
    bench.has(head, finalized)
    bench.unix = float(bench.refs[head].timestamp + age)
    bench.run()
    if seconds == 0.0:
        assert bench.state() is ELSyncState.FINISHED
        return
    assert bench.state() is ELSyncState.WILL_START
    assert bench.sync.wait_until() == (None if seconds == inf else bench.monotonic + seconds)
    bench.monotonic += LISTEN_SECONDS
    bench.run()
    assert bench.sync.in_progress == (seconds == inf)


@pytest.mark.parametrize(
    ("answer", "starts"),
    [
        (EngineIdentity("OP-Reth", "2.10.0", "RH"), True),
        (EngineIdentity("OP-Erigon", "2.61.0"), True),
        (EngineIdentity("go-ethereum", "1.101702.3", "GE"), False),
        (EngineIdentity("Besu", "25.1"), False),
        (None, False),
        (api.ErrorAnswer(-32000, "no"), False),
    ],
)
def test_the_engine_s_own_name_decides_where_no_kind_is_given(answer: object, starts: bool) -> None:
    """An engine that does not say is of the kind that is the default [ENG41]."""
    bench = Bench(is_given=False)
    bench.has(8, finalized=3)
    bench.sync.offer(bench.payload(10))
    assert bench.answer(answer) == api.GetIdentity()
    bench.run()
    assert (bench.state() is ELSyncState.STARTED) is starts
    bench.sync.restart()
    assert bench.next() != api.GetIdentity(), "it is asked once"


def test_labels_are_read_again_after_a_failure() -> None:
    """The engine is not asked for a kind that is given."""
    bench = Bench("reth")
    assert bench.answer() == api.GetBlockRef("finalized")
    with pytest.raises(TemporaryError):
        bench.answer(api.ErrorAnswer(-32000, "busy"))
    bench.sync.failed()
    assert bench.next() == api.GetBlockRef("finalized")
