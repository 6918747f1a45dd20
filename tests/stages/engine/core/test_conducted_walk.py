"""The engine core in any order of events under a conductor that refuses and hangs: no block is gossiped or inserted
that it has not stored, and there is always a way on [CND5 to CND9]."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from rollup_node.stages.engine.calls.calls import CallPurpose, CommitPayload
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


@pytest.mark.parametrize(("walk", "examples"), [(ConductedWalk, 25), (RecordingConductedWalk, 15)])
def test_no_order_of_events_gets_a_block_past_the_conductor(walk: type[ConductedWalk], examples: int) -> None:
    limits = settings(max_examples=examples, stateful_step_count=40, deadline=None, report_multiple_bugs=False)
    run_state_machine_as_test(walk, settings=limits)
    assert (walk.recorded > 0) == walk.records
