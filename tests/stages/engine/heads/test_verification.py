"""What the interop process says of a chain, and where the heads are then."""

from collections.abc import Sequence

import pytest

from rollup_node.stages.engine.calls import actions as act
from rollup_node.stages.engine.calls import engine_api as api
from rollup_node.stages.engine.calls.safe_head_entries import ResetSafeHeads, SafeHeadEntry
from rollup_node.stages.engine.heads.verification import AWAITING_VERDICTS, Verification
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.control import ResetDerivationRequest
from rollup_node.stages.messages.engine import AttributesOutcome
from rollup_node.stages.messages.interop import ChainVerdict, DeniedBlock, Verdicts
from rollup_node.stages.protocol.types import BlockId
from tests.support.chains.chain_fixture import ChainFixture, chain_with
from tests.support.engine.core_harness import CoreHarness
from tests.support.engine.supernodes import deny, deposits_alone, derive, judged, replaced, restarted, supernode


def verdicts(denied: Sequence[int], transition: int = 0, go_back: int | None = None) -> Verdicts:
    """Return a state in which the blocks of these numbers are denied."""
    blocks = tuple(DeniedBlock(number, bytes([number]) * 32) for number in denied)
    back = None if go_back is None else BlockId(go_back, bytes(32))
    return Verdicts({901: ChainVerdict(None, None, blocks, transition, back)}, 1000, None, 0)


@pytest.mark.parametrize(
    ("messages", "unchecked", "limit", "transition", "changed"),
    [
        ([verdicts([])], [], None, 0, False),
        ([verdicts([7, 5])], [5, 7], None, 0, True),
        ([verdicts([5]), verdicts([5])], [5], None, 0, False),
        ([verdicts([5]), verdicts([])], [], None, 0, False),
        ([verdicts([], 3)], [], None, 3, False),
        ([verdicts([5], 1, 4)], [5], None, 0, True),
        ([verdicts([5], 1, 4), verdicts([5], 1, 4)], [5], None, 0, False),
        ([verdicts([5], 1, 4), verdicts([5], 1)], [5], None, 0, False),
        ([verdicts([2], 1, 4)], [2], 4, 0, True),
        ([verdicts([], 1, 4), verdicts([], 2)], [], None, 2, False),
        ([verdicts([], 1, 4), verdicts([], 2, 3)], [], 3, 0, True),
    ],
)
def test_states_one_after_the_other(
    messages: Sequence[Verdicts], unchecked: Sequence[int], limit: int | None, transition: int, changed: bool
) -> None:
    """[RW1, RW4]: what may stand in the chain, to which block it goes back whatever stands, and what it complies with;
    the first state is a change only if something is denied."""
    verification = Verification(901, True)
    assert verification.is_awaited
    changes = [verification.take(message) for message in messages]
    assert changes[-1] == changed and not verification.is_awaited
    assert [block.number for block in verification.unchecked] == unchecked
    assert (None if verification.limit is None else verification.limit.number) == limit
    assert verification.transition == transition
    assert verification.goes_back == bool(unchecked or limit is not None)
    verification.settle()
    last = messages[-1].chains[901]
    assert (verification.transition, verification.goes_back) == (last.transition, False)
    assert not verification.take(messages[-1]), "the same state again"


# --- the first state -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("el_sync", [False, True])
def test_no_call_is_made_before_the_interop_process_is_heard_of(chain: ChainFixture, el_sync: bool) -> None:
    """[IV10]"""
    harness = supernode(chain, el_sync=el_sync)
    if el_sync:
        harness.gossip(chain.payloads[chain.build(3)[3].hash])
    for _ in range(5):
        assert harness.step() == []
        harness.wait(60.0)
    assert harness.done(act.ShowProblem)[0].problem == Problem(None, "", AWAITING_VERDICTS)
    harness.request(ResetDerivationRequest(1))
    assert harness.step() == []
    harness.judge()
    harness.run_until_idle()
    assert harness.responses or el_sync
    assert el_sync or harness.status.unsafe == chain.genesis


def test_verdicts_of_other_chains_or_without_a_supernode_count_for_nothing(chain: ChainFixture) -> None:
    """[IV10]"""
    harness = CoreHarness(chain)
    harness.run_until_idle()
    harness.derive_block()
    refs = derive(harness, 3)
    deny(harness, refs, 2)
    assert harness.status.safe == refs[3] and harness.status.transition == 0
    harness = supernode(chain)
    harness.judge(chain_id=4)
    assert harness.step() == [], "nothing is known of this chain"


# --- starts ----------------------------------------------------------------------------------------------------------


def test_no_start_stands_on_a_denied_block(chain: ChainFixture) -> None:
    """[RW1]: the process was killed between the verdict and its reset; the engine has the denied block."""
    harness = judged(chain)
    refs = derive(harness, 5)
    again = restarted(harness)
    again.judge(verified=refs[2].id, denied=[refs[3].id])
    again.run_until_idle()
    assert again.heads.unsafe == again.heads.safe == refs[2] and again.status.transition == 0
    again = restarted(harness)
    again.judge(denied=[refs[4].id, refs[3].id, refs[5].id], transition=7, go_back=refs[2].id)
    again.run_until_idle()
    assert again.heads.unsafe == refs[2] and again.status.transition == 7


def test_the_replacement_stays_over_restarts_with_the_blocks_on_it(chain: ChainFixture) -> None:
    """[IV11]: also where the start is below it, and derivation brings the attributes of the denied block again."""
    harness = judged(chain)
    refs = derive(harness, 4)
    replacement = replaced(harness, refs, 3)
    on_it = chain.seal(replacement, chain.attributes(replacement, 100, [chain.user]))
    harness.gossip(on_it)
    harness.run_until_idle()
    for lost in (False, True):
        again = restarted(harness)
        again.judge(verified=refs[2].id, denied=[refs[3].id], transition=1)
        again.run_until_idle()
        again.derive_block()
        assert (again.heads.safe, again.heads.unsafe.hash) == (refs[2], on_it.block_hash)
        if lost:
            harness.engine.lost.add(refs[3].hash)
        again.derive(chain.user)
        kinds = [type(pending.call) for pending in again.step()]
        assert kinds == [api.GetBlock]
        again.run_until_idle()
        assert again.heads.safe == replacement
        result = again.done(act.AttributesProcessed)[-1].result
        assert result.outcome is AttributesOutcome.REPLACED_BY_DEPOSITS, "the rest of the span is dropped again"
        if not lost:
            assert again.heads.unsafe.hash == on_it.block_hash


def test_other_attributes_do_not_make_a_replacement_safe(chain: ChainFixture) -> None:
    """[IV11]: the chain's block has deposits alone, but the attributes are not those of the denied block."""
    harness = judged(chain)
    refs = derive(harness, 4)
    replacement = replaced(harness, refs, 3)
    again = restarted(harness)
    again.judge(verified=refs[2].id, denied=[refs[3].id], transition=1)
    again.run_until_idle()
    again.derive_block()
    again.derive_block(chain.user, chain.user)
    assert again.heads.safe.number == 3 and again.heads.safe != replacement
    assert not deposits_alone(again, again.heads.safe)


def test_a_chain_goes_back_where_l1_has_left_what_was_verified(chain: ChainFixture) -> None:
    """[RW1]"""
    harness = judged(chain)
    refs = derive(harness, 5)
    harness.judge(verified=refs[5].id)
    harness.pass_time(0.5)
    assert harness.status.safe == refs[5]
    harness.judge(verified=refs[2].id, transition=4, go_back=refs[2].id)
    assert harness.status.unsafe is None and harness.status.transition == 0
    harness.run_until_idle()
    harness.pass_time(2.0)
    assert harness.heads.unsafe == harness.heads.safe == refs[2]
    assert harness.status.transition == 4
    derive(harness, 2)
    for _ in range(3):
        harness.judge(verified=refs[2].id, transition=4, go_back=refs[2].id)
        harness.pass_time(1.0)
    assert harness.heads.safe.number == 4, "once is enough, however often it is said"
    assert len(harness.done(act.ResetStarted)) == 1


def test_a_block_that_the_chain_does_not_have_leads_to_no_reset(chain: ChainFixture) -> None:
    """[RW1, RW4], optimism#22369: the transition was carried out before, or the chain has left the block."""
    harness = judged(chain)
    refs = derive(harness, 4)
    replacement = replaced(harness, refs, 3)
    derive(harness, 2)
    resets = len(harness.done(act.ResetStarted))
    deny(harness, refs, 3, transition=2)
    harness.pass_time(1.0)
    assert harness.status.transition == 2 and harness.heads.safe.number == 5
    again = restarted(harness)
    again.judge(verified=refs[2].id, denied=[refs[3].id], transition=2, go_back=refs[2].id)
    again.run_until_idle()
    assert again.heads.unsafe.number == 5 and again.status.transition == 2
    assert len(harness.done(act.ResetStarted)) == resets and not again.done(act.ResetStarted)
    assert harness.engine.canonical()[3].block_hash == replacement.hash


def test_what_the_engine_has_finalized_stays(chain: ChainFixture) -> None:
    """[RW1]: the search fails, says so, and is repeated."""
    harness = judged(chain)
    refs = derive(harness, 4)
    harness.judge(verified=refs[4].id, final=refs[4].id)
    harness.pass_time(0.5)
    harness.pass_time(0.5)
    assert harness.status.finalized == refs[4]
    for denied in ([refs[3].id], []):
        again = restarted(harness)
        again.judge(verified=refs[2].id, denied=denied, transition=3, go_back=refs[2].id)
        for _ in range(100):
            again.step()
            if again.failures:
                break
            again.answer(again.open[0])
        text = f"the chain cannot go back to block {refs[2]}: the engine has finalized block {refs[4]}"
        assert again.failures[-1] == text and again.status.transition == 0 and again.core.heads is None


def test_a_start_that_was_found_before_the_verdict_is_not_taken(chain: ChainFixture) -> None:
    """[RW1]: the verdict comes during the search, or while its heads are on their way to the engine."""
    harness = judged(chain)
    refs = derive(harness, 4)
    for calls in range(25):
        harness.engine.head = refs[4].hash
        again = restarted(harness)
        again.judge()
        for _ in range(calls):
            again.step()
            if again.open:
                again.answer(again.open[0])
        again.step()
        again.judge(verified=refs[1].id, denied=[refs[2].id], transition=1, go_back=refs[1].id)
        again.run_until_idle()
        again.pass_time(2.0)
        assert again.heads.unsafe == refs[1] and again.status.transition == 1, calls


def test_a_start_is_at_the_verified_block(chain: ChainFixture) -> None:
    """[RW3]: otherwise all blocks that are not final are derived again, and all chains wait for it."""
    harness = judged(chain)
    refs = derive(harness, 5)
    again = restarted(harness)
    again.judge(verified=refs[3].id)
    again.run_until_idle()
    assert (again.heads.safe, again.heads.unsafe, again.status.safe) == (refs[3], refs[5], refs[3])
    again = restarted(harness)
    again.judge()
    again.run_until_idle()
    assert again.heads.safe == refs[0], "the finalized block"


def test_a_start_is_not_at_a_verified_block_whose_origin_is_gone() -> None:
    """[RW3]: the L1 block with which it became safe is another one by now, too."""
    chain = chain_with(l1_step=4)
    refs = chain.build(8, per_epoch=2)
    harness = supernode(chain)
    harness.engine.head, harness.engine.finalized = refs[8].hash, refs[1].hash
    chain.reorg("b", 103)
    harness.record.entries = [SafeHeadEntry(chain.l1_ref(105).id, refs[7].id)]
    harness.judge(verified=refs[7].id)
    harness.run_until_idle()
    assert (harness.heads.unsafe, harness.heads.safe) == (refs[5], refs[1])


def test_a_safe_block_that_is_not_known_to_be_verified_has_no_label() -> None:
    """[LB3]: the start is a sequencing window below the safe block, and above the finalized one."""
    chain = chain_with(l1_step=2)
    refs = chain.build(60, per_epoch=1)
    harness = supernode(chain)
    harness.move_l1(162)
    harness.engine.head = harness.engine.safe = refs[60].hash
    harness.engine.finalized = chain.genesis.hash
    harness.judge()
    write = harness.until(ResetSafeHeads)
    assert isinstance(write.call, ResetSafeHeads) and write.call.safe == harness.heads.safe
    assert 0 < harness.heads.safe.number < 60 and harness.status.local_safe == harness.heads.safe
    assert harness.status.safe == harness.status.finalized == chain.genesis
