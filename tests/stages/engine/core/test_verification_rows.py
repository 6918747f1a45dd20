"""The engine core in a supernode: denied blocks and labels."""

import pytest

from rollup_node.stages.engine.calls import actions as act
from rollup_node.stages.engine.calls import engine_api as api
from rollup_node.stages.engine.calls.calls import CallPurpose
from rollup_node.stages.engine.calls.heads import Forkchoice
from rollup_node.stages.engine.core.verification_rows import LABEL_SECONDS
from rollup_node.stages.engine.heads.verification import AWAITING_REPLACEMENT
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.control import CommitBlockRequest, OpenBlockRequest
from rollup_node.stages.messages.engine import AttributesOutcome
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from tests.support.chains.chain_fixture import GENESIS_TIME, ChainFixture
from tests.support.engine.model_engine import ModelEngine
from tests.support.engine.supernodes import deny, deposits_alone, derive, judged, replaced, restarted, supernode

# --- denied blocks ---------------------------------------------------------------------------------------------------


def test_a_denied_block_is_replaced(chain: ChainFixture) -> None:
    """[IV5, RW1, RW4]"""
    harness = judged(chain)
    refs = derive(harness, 4)
    deny(harness, refs, 3)
    status = harness.status
    assert [reset.reason for reset in harness.done(act.ResetStarted)] == [
        f"block {refs[3]} is denied: its messages are invalid"
    ]
    assert status.unsafe is None or status.unsafe.number <= 2
    harness.pass_time(2.0)
    status = harness.status
    assert status.transition == 1
    assert status.unsafe == status.pending_safe == status.local_safe == status.safe == refs[2]
    assert harness.engine.head == refs[2].hash
    harness.derive_block(chain.user)
    head, result = harness.heads.unsafe, harness.done(act.AttributesProcessed)[-1].result
    assert head.number == 3 and head.parent_hash == refs[2].hash and deposits_alone(harness, head)
    assert result.outcome is AttributesOutcome.REPLACED_BY_DEPOSITS
    assert result.reason == Problem(Code.BLOCK_DENIED, "", "block 3 is denied: its messages are invalid")
    harness.derive_block(chain.user)
    assert harness.heads.safe.number == 4 and harness.heads.safe.parent_hash == head.hash


class HoldingEngine(ModelEngine):
    """As some releases of op-reth, it stays where it is if it is pointed at an ancestor of its head."""

    def update_forkchoice(
        self, state: Forkchoice, attributes: PayloadAttributes | None
    ) -> api.ForkchoiceAnswer | api.ErrorAnswer:
        held = self.head
        is_ancestor = state.head in {payload.block_hash for payload in self.canonical().values()}
        answer = super().update_forkchoice(state, attributes)
        self.head = held if is_ancestor else self.head
        return answer


def test_an_engine_that_does_not_go_back_is_moved_by_the_replacement(chain: ChainFixture) -> None:
    """[RW2], optimism#20929: also if the process is restarted in between, when the denied block is still the engine's
    head."""
    for restarts in (False, True):
        engine = HoldingEngine(chain)
        harness = judged(chain, engine=engine)
        refs = derive(harness, 4)
        deny(harness, refs, 3)
        harness.pass_time(2.0)
        assert harness.heads.unsafe == refs[2] and harness.status.transition == 1
        assert engine.head == refs[4].hash, "it shows the chain of the denied block"
        if restarts:
            harness = restarted(harness)
            harness.judge(verified=refs[2].id, denied=[refs[3].id], transition=1)
            harness.run_until_idle()
            harness.derive_block()
            assert harness.heads.unsafe == refs[2]
        harness.derive_block(chain.user)
        assert engine.head == harness.heads.safe.hash and deposits_alone(harness, harness.heads.safe)


@pytest.mark.parametrize("is_late", [False, True])
def test_consolidation_asks_too(chain: ChainFixture, is_late: bool) -> None:
    """A denied unsafe block is not made safe where it is derived, though it stands in the chain [IV6]."""
    harness = judged(chain)
    refs = derive(harness, 2)
    payload = chain.seal(refs[2], chain.attributes(refs[2], 100, [chain.user]))
    harness.gossip(payload)
    harness.run_until_idle()
    assert harness.unsafe == 3 and harness.heads.safe == refs[2]
    bad = chain.ref(payload)
    harness.derive(chain.user)
    pending = harness.until(api.GetBlock, CallPurpose.ATTRIBUTES)
    if is_late:
        harness.run_until_idle()
    harness.judge(verified=refs[2].id, denied=[bad.id], transition=1, go_back=refs[2].id)
    if not is_late:
        harness.answer(pending)
    harness.run_until_idle()
    harness.pass_time(2.0)
    if harness.heads.safe.number < 3:
        harness.derive_block(chain.user)
    assert harness.status.local_safe is not None and harness.status.local_safe.number == 3
    assert harness.status.local_safe != bad and deposits_alone(harness, harness.heads.safe)
    assert harness.status.transition == 1
    assert len(harness.done(act.ResetStarted)) == is_late, "it is replaced at once, before it is safe"


def test_the_chain_is_looked_at_when_the_engine_has_its_heads(chain: ChainFixture) -> None:
    """[RW1]: the build API has pointed the engine at an older block."""
    harness = judged(chain)
    refs = derive(harness, 3)
    harness.request(OpenBlockRequest(1, refs[1].id, chain.attributes(refs[1], 100)))
    harness.answer(harness.until(api.ForkchoiceUpdate, CallPurpose.BUILD_API))
    assert harness.engine.head == refs[1].hash
    deny(harness, refs, 3)
    assert [reset.reason for reset in harness.done(act.ResetStarted)] == [
        f"block {refs[3]} is denied: its messages are invalid"
    ]


def test_a_denied_unsafe_block_is_dropped(chain: ChainFixture) -> None:
    """Also one that was queued before it was denied [IV5]."""
    harness = judged(chain)
    refs = derive(harness, 1)
    bad = chain.seal(refs[1], chain.attributes(refs[1], 100, [chain.user, chain.user]))
    child = chain.seal(chain.ref(bad), chain.attributes(chain.ref(bad), 100))
    harness.judge(denied=[chain.ref(bad).id])
    harness.gossip(bad)
    harness.gossip(child)
    harness.run_until_idle()
    assert harness.unsafe == 1
    harness = judged(chain)
    derive(harness, 1)
    harness.gossip(child)
    harness.gossip(bad)
    harness.judge(denied=[chain.ref(bad).id])
    harness.derive_block(chain.user)
    harness.pass_time(2.0)
    assert harness.heads.unsafe.number == 2 and harness.heads.unsafe.hash != bad.block_hash


def test_nothing_unsafe_is_taken_in_until_the_block_is_replaced(chain: ChainFixture) -> None:
    """[IV6], optimism#21948: gossip of the denied block's chain leads to no second reset."""
    harness = judged(chain)
    refs = derive(harness, 3)
    others = [chain.payloads[ref.hash] for ref in chain.extend(refs[3], 3, [chain.user])]
    deny(harness, refs, 3)
    sibling = chain.seal(refs[2], chain.attributes(refs[2], 100, [chain.user, chain.user]))
    for payload in (chain.payloads[refs[3].hash], *others, sibling):
        harness.gossip(payload)
    harness.pass_time(2.0)
    assert harness.heads.unsafe == refs[2], "a block in place of the replacement is not the derived one"
    waits = act.ShowProblem("denied block", Problem(None, "", AWAITING_REPLACEMENT))
    assert [action for action in harness.done(act.ShowProblem) if action.name == waits.name][-1] == waits
    harness.derive_block(chain.user)
    assert [action for action in harness.done(act.ShowProblem) if action.name == waits.name][-1].problem is None
    replacement = harness.heads.unsafe
    for payload in (*others, sibling):
        harness.gossip(payload)
    harness.pass_time(10.0)
    assert harness.heads.unsafe == harness.heads.safe == replacement and harness.engine.head == replacement.hash
    following = chain.seal(replacement, chain.attributes(replacement, 100, [chain.user]))
    harness.gossip(following)
    harness.run_until_idle()
    assert harness.heads.unsafe == chain.ref(following)
    assert len(harness.done(act.ResetStarted)) == 1


def test_the_blocks_of_a_denied_chain_are_not_lost(chain: ChainFixture) -> None:
    """[IV5]: the p2p process still has them, but the engine has lost nothing."""
    harness = judged(chain, p2p=True)
    refs = derive(harness, 4)
    assert harness.latest is not None
    for ref in refs[1:]:
        harness.latest.add(chain.payloads[ref.hash])
    deny(harness, refs, 3)
    harness.pass_time(2.0)
    assert harness.done(act.RequestLatestBlocks)[-1].head == refs[2].id
    assert harness.logged("the execution engine lacks the latest blocks, putting them back") == []


def test_the_engine_is_not_pointed_over_a_denied_block(chain: ChainFixture) -> None:
    """[IV12], optimism#21991: its peers have the chain of the denied block."""
    harness = judged(chain, p2p=True)
    refs = derive(harness, 3)
    replacement = replaced(harness, refs, 3)
    at = chain.extend(refs[3], 4, [chain.user])[-1]
    harness.gossip(chain.payloads[at.hash])
    for _ in range(20):
        harness.pass_time(2.0)
    assert harness.engine.head == replacement.hash
    heads = {state.head for state in harness.engine.accepted}
    assert at.hash not in heads
    assert harness.done(act.RequestGap), "peers are asked"
    harness.judge(verified=replacement.id, final=replacement.id, denied=[refs[3].id], transition=1)
    harness.pass_time(0.5)
    harness.pass_time(0.5)
    assert harness.status.finalized == replacement
    for _ in range(20):
        harness.pass_time(2.0)
    assert harness.engine.head == replacement.hash, "then the block below must be the safe one [UNS6]"


def test_a_sequencer_neither_publishes_nor_inserts_a_denied_block(chain: ChainFixture) -> None:
    """[IV5]: the transaction with the message may still be in the engine's pool."""
    harness = judged(chain, sequencer_enabled=True, sequencer_l1_confs=0)
    harness.engine.pool = [chain.user]
    fetched = harness.until(api.GetPayload, CallPurpose.SEQUENCER)
    bad = harness.good_answer(fetched)
    assert isinstance(bad, ExecutionPayload)
    harness.judge(denied=[chain.ref(bad).id])
    published = len(harness.published)
    harness.answer(fetched)
    harness.step()
    assert len(harness.published) == published
    assert not [pending for pending in harness.open if isinstance(pending.call, api.NewPayload)]
    problems = [action.problem for action in harness.done(act.ShowProblem) if action.name == "sequencer"]
    assert problems == [Problem(None, "sequencer", "block 1 is denied: its messages are invalid")]


def test_a_sequencer_waits_for_the_replacement_and_goes_on_from_it(chain: ChainFixture) -> None:
    """[IV6]"""
    harness = judged(chain, sequencer_enabled=True, sequencer_l1_confs=0)
    while harness.unsafe < 3:
        harness.pass_time(1.0)
    built = [harness.chain.known[harness.engine.canonical()[number].block_hash].ref for number in (1, 2, 3)]
    refs = [chain.genesis, *built]
    for _ in range(3):
        harness.derive_block()
    assert harness.heads.safe.number == 3
    refs = [chain.genesis, *(chain.ref(harness.engine.canonical()[number]) for number in (1, 2, 3))]
    deny(harness, refs, 2)
    published = len(harness.published)
    for _ in range(5):
        harness.pass_time(2.0)
    assert harness.heads.unsafe == refs[1] and len(harness.published) == published


def test_the_build_api_gets_an_error_for_a_denied_block(chain: ChainFixture) -> None:
    """[IV5]"""
    harness = judged(chain)
    refs = derive(harness, 1)
    bad = chain.seal(refs[1], chain.attributes(refs[1], 100, [chain.user, chain.user]))
    harness.judge(denied=[chain.ref(bad).id])
    harness.request(CommitBlockRequest(1, bad))
    harness.run_until_idle()
    assert not harness.responses, "it waits until the block is replaced [IV6]"
    harness.derive_block(chain.user)
    harness.run_until_idle()
    assert harness.responses[-1].error == "block 2 is denied: its messages are invalid"
    assert harness.heads.unsafe.hash != bad.block_hash


# --- labels ----------------------------------------------------------------------------------------------------------


def test_before_interop_a_chain_has_its_own_labels(chain: ChainFixture) -> None:
    """[LB3, LB4, FIN10]: the blocks at 2 and 4 s are from before it."""
    start = GENESIS_TIME + 6
    harness = supernode(chain)
    harness.judge(activation=start)
    harness.run_until_idle()
    harness.derive_block()
    refs = derive(harness, 2)
    assert harness.status.safe == refs[2]
    refs += derive(harness, 2)[1:]
    assert (harness.status.safe, harness.status.local_safe) == (refs[2], refs[4])
    harness.move_l1(harness.l1_head, harness.l1_head)
    harness.report_idle()
    harness.pass_time(5.0)
    assert harness.status.finalized == refs[2]
    again = restarted(harness)
    again.judge(activation=start)
    again.run_until_idle()
    assert again.status.safe == refs[2], "nothing is verified yet: not the genesis block"
    harness.judge(verified=refs[4].id, activation=start)
    harness.pass_time(0.5)
    assert harness.status.safe == refs[4]


def test_what_is_read_for_an_older_verdict_moves_no_label(chain: ChainFixture) -> None:
    """[LB6]: the label of the verdict that is in force is read next."""
    harness = judged(chain)
    refs = derive(harness, 5)
    harness.judge(verified=refs[4].id)
    pending = harness.until(api.GetBlockRef, CallPurpose.VERIFIED_BLOCK)
    harness.judge(verified=refs[3].id)
    harness.answer(pending)
    assert harness.status.safe == refs[0]
    harness.pass_time(0.5)
    assert harness.status.safe == refs[3]


def test_a_label_waits_until_its_block_is_local_safe(chain: ChainFixture) -> None:
    """[LB3], optimism#22982: after a start below the verified block, on a branch that may be another one."""
    harness = judged(chain)
    refs = derive(harness, 5)
    chain.reorg("b", harness.l1_head)
    again = restarted(harness)
    again.judge(verified=refs[4].id)
    again.run_until_idle()
    again.derive_block()
    for number in (1, 2, 3):
        again.derive_block(chain.user)
        assert again.status.safe == refs[0] and again.heads.safe == refs[number]
    again.derive_block(chain.user, chain.user)
    again.pass_time(0.5)
    assert again.heads.safe.number == 4 and again.heads.safe != refs[4]
    assert again.status.safe == refs[0], "the chain has another block there"
    again.judge(verified=again.heads.safe.id)
    again.pass_time(0.5)
    assert again.status.safe == again.heads.safe


def test_labels_of_a_verifier_that_catches_up_move_now_and_then(chain: ChainFixture) -> None:
    """[LB6]: an update for each would slow derivation down."""
    harness = judged(chain)
    refs = derive(harness, 6)
    harness.judge(verified=refs[1].id)
    harness.run_until_idle()
    before = len(harness.engine.accepted)
    for ref in refs[2:]:
        harness.judge(verified=ref.id)
        harness.run_until_idle()
    assert harness.status.safe == refs[1] and len(harness.engine.accepted) == before
    harness.pass_time(LABEL_SECONDS)
    assert harness.status.safe == refs[6]


def test_a_build_on_the_tip_keeps_the_verified_label(chain: ChainFixture) -> None:
    """[LB6]: the update with attributes carries it as well."""
    harness = judged(chain)
    refs = derive(harness, 3)
    harness.judge(verified=refs[1].id)
    harness.pass_time(0.5)
    harness.derive(chain.user)
    build = harness.until(api.ForkchoiceUpdate, CallPurpose.ATTRIBUTES)
    assert isinstance(build.call, api.ForkchoiceUpdate) and build.call.attributes is not None
    assert build.call.forkchoice.safe == refs[1].hash
