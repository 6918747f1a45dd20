"""Safe heads are recorded before derivation goes on, and whatever happens meanwhile [SDB2, SDB3, SDB7, SDB8, SDB13]."""

from rollup_node.stages.engine.calls.actions import Send, Severity, WorkFailed, WorkRecovered
from rollup_node.stages.engine.calls.calls import CallPurpose, PendingCall
from rollup_node.stages.engine.calls.engine_api import Unavailable
from rollup_node.stages.engine.calls.safe_head_entries import SafeHeadEntry
from rollup_node.stages.engine.core.engine_core import POLL_SECONDS
from rollup_node.stages.engine.core.start_rows import SEARCH_PAUSE
from rollup_node.stages.messages.engine import AttributesResult
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.engine.core_harness import CoreHarness, started


def recording(chain: ChainFixture) -> CoreHarness:
    """Return a harness with a safe head database, whose first start is recorded."""
    return started(chain, safedb_path="safe")


def until_written(harness: CoreHarness) -> PendingCall:
    """Derivation goes on; the next write, which is open."""
    harness.derive()
    for _ in range(30):
        for pending in harness.step():
            if pending.purpose is CallPurpose.SAFE_HEAD_WRITE:
                return pending
            harness.answer(pending)
    raise AssertionError("nothing is written")


def test_derivation_gets_its_result_once_the_safe_head_is_on_disk(chain: ChainFixture) -> None:
    """[SDB2]: with the L1 block that derivation has reached, for a block that is built as for one that was there."""
    harness = recording(chain)
    for number in (1, 2):
        pending = until_written(harness)
        assert harness.core.heads is not None and harness.waiting is not None
        expected = SafeHeadEntry(chain.l1_ref(harness.l1_head).id, harness.heads.safe.id)
        assert pending.call == expected and expected.safe_head.number == number
        harness.derive()
        assert harness.waiting is not None, "attributes that are repeated get no result either"
        harness.answer(pending)
        assert harness.waiting is None
        harness.run_until_idle()


def test_a_run_is_recorded_beside_its_blocks(chain: ChainFixture) -> None:
    """[ENG40, SDB13]: blocks do not wait for the disk, derivation does, and gets what is recorded first."""
    harness = recording(chain)
    harness.derive(chain.user)
    for _ in range(10):
        harness.derive_ahead(1, chain.user, concluding=True)
    calls = 0
    for _ in range(100):
        harness.step()
        others = [pending for pending in harness.open if pending.purpose is not CallPurpose.SAFE_HEAD_WRITE]
        calls += len([pending for pending in others if pending.purpose is CallPurpose.ATTRIBUTES])
        if not others:
            break
        harness.answer(others[0])
    assert harness.heads.safe.number == 11 and calls == 3 * 11 + 1
    assert harness.waiting is not None and harness.waiting.sequence == 1
    for number, held in ((8, 3), (11, 0)):
        pending = harness.call(CallPurpose.SAFE_HEAD_WRITE)
        assert isinstance(pending.call, SafeHeadEntry) and pending.call.safe_head.number == number
        harness.answer(pending)
        assert harness.parent is not None and harness.parent.number == number
        sent = [action.message for action in harness.done(Send)]
        assert isinstance(sent[-1], AttributesResult) and sent[-1].held == held, "what follows is not lost"
        harness.derive()
        harness.run_others(CallPurpose.SAFE_HEAD_WRITE)
    assert harness.record.entries[-1].safe_head.number == 11


def test_blocks_within_a_batch_are_not_recorded(chain: ChainFixture) -> None:
    """[SDB2]"""
    harness = recording(chain)
    harness.derive(concluding=False)
    harness.run_others(CallPurpose.SAFE_HEAD_WRITE)
    assert harness.open == []
    assert harness.waiting is None and harness.core.heads is not None
    assert harness.heads.pending_safe.number == 1 and harness.heads.safe.number == 0
    assert isinstance(until_written(harness).call, SafeHeadEntry)


def test_no_block_is_finalized_before_it_is_recorded(chain: ChainFixture) -> None:
    """A start search ends at the finalized head: a safe head that is final and not recorded would never be."""
    harness = recording(chain)
    pending = until_written(harness)
    harness.move_l1(harness.l1_head, finalized=harness.l1_head)
    harness.report_idle()
    harness.run_others(CallPurpose.SAFE_HEAD_WRITE)
    assert not harness.logged("finalized L2 block")
    harness.answer(pending)
    harness.pass_time(POLL_SECONDS)
    assert harness.logged("finalized L2 block")[-1]["block"].number == 1


def test_a_safe_head_that_cannot_be_recorded_resets(chain: ChainFixture) -> None:
    """[SDB3]"""
    harness = recording(chain)
    harness.answer(until_written(harness), Unavailable("disk full"))
    assert harness.done(WorkFailed)[-1].severity is Severity.RESET and harness.failures == ["disk full"]
    assert harness.core.heads is None and harness.waiting is not None
    harness.pass_time(SEARCH_PAUSE)
    assert harness.done(WorkRecovered)[-1].task == "safe head database"
    assert isinstance(until_written(harness).call, SafeHeadEntry), "the block is derived and recorded again"


def test_a_reset_of_the_safe_heads_that_fails_is_tried_again(chain: ChainFixture) -> None:
    """[SDB3]"""
    harness = CoreHarness(chain, safedb_path="safe")
    pending = until_written(harness)
    harness.answer(pending, Unavailable("disk full"))
    assert harness.step() == [] and harness.core.heads is not None and harness.start is None
    harness.wait(1.0)
    (again,) = harness.step()
    assert again.call == pending.call
    harness.answer(again)
    assert harness.start is not None and harness.done(WorkRecovered)[-1].task == "safe head database"
