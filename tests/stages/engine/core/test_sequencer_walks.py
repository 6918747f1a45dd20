"""The engine core in any order of events, with a sequencer whose blocks a conductor refuses or hangs on [CND5 to CND9],
or whose engine loses blocks beside a p2p process that keeps what was published, restarts and is silent [SEQ39 to
SEQ43]."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from rollup_node.stages.engine.calls.calls import CallPurpose, CommitPayload
from rollup_node.stages.engine.calls.engine_api import GetPayload
from rollup_node.stages.engine.sequencer.sequencer import SequencedBlock
from rollup_node.stages.p2p.blocks.latest_blocks import LatestBlocks
from rollup_node.stages.protocol.payloads import ExecutionPayload
from tests.stages.engine.core.test_walk import Role, Walk

AFTER_COMMIT = ("wait", "wait", "stop", "stop", "reset", "reset", "override")


class ConductedWalk(Walk):
    """With a conductor, and more blocks that it may refuse."""

    roles = (Role.CONDUCTED,)

    @precondition(lambda self: self.conducted)
    @rule(answer=st.sampled_from(["no", "later", "yes"]), then=st.sampled_from(AFTER_COMMIT))
    def commit(self, answer: str, then: str) -> None:
        """A commit succeeds, fails, or stays open while the next thing happens."""
        pending = self.work_until((CallPurpose.COMMIT, CommitPayload), concluding=True)
        if pending is None:
            return
        if answer == "yes":
            self.answer(pending)
        elif answer == "no":
            self.answer_with_fault(pending, "away")
        if then == "wait":
            self.wait(1.0)
        else:
            self.admin(then)
        self.step()


class RecordingConductedWalk(ConductedWalk):
    """With a safe head database."""

    records = True


class LosingWalk(Walk):
    """With a sequencer, and an engine that loses blocks soon after they were built."""

    roles = (Role.SEQUENCER,)

    def check_commit(self, payload: ExecutionPayload) -> None:
        """A block is published: no other of the chain that was signed last, which was inserted and whose L1 origin is
        canonical, has the same parent, unless it was said that it could not be put back."""
        super().check_commit(payload)
        inserted = {block.payload.block_hash for block in self.harness.done(SequencedBlock)}
        given_up = bool(self.harness.logged("going on without the latest blocks"))
        signed = self.harness.keeps.signed[-1:]
        while signed:
            (last,) = signed
            origin = self.chain.ref(last).l1_origin
            is_rival = last.parent_hash == payload.parent_hash and last.block_hash != payload.block_hash
            if is_rival and last.block_hash in inserted and self.chain.l1_ref(origin.number).id == origin:
                assert given_up, f"block {payload.block_number} is built a second time"
            signed = [self.chain.payloads[last.parent_hash]] if last.parent_hash in self.chain.payloads else []

    @rule(blocks=st.integers(1, 3), back=st.integers(0, 3), answers=st.booleans())
    def build_and_lose(self, blocks: int, back: int, answers: bool) -> None:
        """The pool has other transactions afterwards."""
        for _ in range(blocks):
            self.work_until((CallPurpose.SEQUENCER, GetPayload), concluding=True)
            self.work(6, reads_first=False)
        self.harness.engine.pool = [self.chain.user] * (len(self.harness.published) + 1)
        self.engine_restarts(back)
        if not answers:
            self.p2p_process_restarts(False)

    @rule(answers=st.booleans())
    def p2p_process_restarts(self, answers: bool) -> None:
        """It has the blocks of peers no more, and perhaps does not answer for a while."""
        self.harness.latest = LatestBlocks(self.harness.keeps) if answers else None

    def teardown(self) -> None:
        if hasattr(self, "harness"):
            self.p2p_process_restarts(True)
        super().teardown()


class ConductedLosingWalk(LosingWalk):
    """With a conductor."""

    roles = (Role.CONDUCTED,)


WALKS = [(ConductedWalk, 15), (RecordingConductedWalk, 10), (LosingWalk, 20), (ConductedLosingWalk, 10)]


@pytest.mark.parametrize(("walk", "examples"), WALKS)
def test_no_order_of_events_loses_a_block_or_passes_the_conductor(walk: type[Walk], examples: int) -> None:
    """There is always a way on, and a block is neither built a second time nor inserted before it is stored."""
    limits = settings(max_examples=examples, stateful_step_count=40, deadline=None, report_multiple_bugs=False)
    run_state_machine_as_test(walk, settings=limits)
    assert (walk.recorded > 0) == walk.records
