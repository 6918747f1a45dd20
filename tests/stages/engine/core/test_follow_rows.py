"""Following another node in the engine core: heads are imported, the chain is moved to, and a source that lies or is
away changes nothing [FSR1 to FSR7]."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.engine.calls import actions as act
from rollup_node.stages.engine.calls.calls import CallPurpose, FollowStatus
from rollup_node.stages.engine.calls.engine_api import ErrorAnswer, ForkchoiceAnswer, Unavailable
from rollup_node.stages.engine.core.follow_rows import FollowSourceRead
from rollup_node.stages.engine.heads.follow_source import HOLD_BLOCK_TIMES, FollowResult
from rollup_node.stages.messages.control import ResetDerivationRequest
from rollup_node.stages.protocol.types import L2BlockRef
from tests.support.chains.chain_fixture import chain_with
from tests.support.engine.core_harness import CoreHarness
from tests.support.engine.model_engine import ModelEngine

LENGTH = 60


class Follower:
    """A node whose engine has the blocks up to `has`, and a source with all of them, away unless it has the heads
    `shown`. It is late: the time is that of the last block."""

    def __init__(self, has: int, shown: tuple[int, int, int] | None = None, **config: Any) -> None:
        self.chain = chain_with()
        self.refs = self.chain.build(LENGTH)
        self.engine = ModelEngine(self.chain)
        self.engine.head = self.refs[has].hash
        self.engine.lost = {ref.hash for ref in self.refs[has + 1 :]}
        self.harness = CoreHarness(self.chain, self.engine, follow_url="http://source", **config)
        self.harness.wait(float(LENGTH * self.chain.rollup.block_time))
        if shown is not None:
            self.shows(*shown)
        self.harness.move_l1(130)
        self.harness.run_until_idle(2000)

    def shows(self, local_safe: int, safe: int, finalized: int, refs: list[L2BlockRef] | None = None) -> None:
        """The source has these heads."""
        at = self.refs if refs is None else refs
        self.harness.source = FollowStatus(self.chain.l1_ref(110).id, at[local_safe], at[safe], at[finalized])

    def says(self, local_safe: int, safe: int, finalized: int, refs: list[L2BlockRef] | None = None) -> None:
        """The source has these heads; rounds of following it are made."""
        self.shows(local_safe, safe, finalized, refs)
        self.round()

    def round(self) -> None:
        self.harness.wait(10.5)
        self.harness.run_until_idle(2000)

    @property
    def heads(self) -> tuple[int, int, int, int]:
        """The numbers of unsafe, local safe, safe and finalized head that others see."""
        status = self.harness.status
        refs = (status.unsafe, status.local_safe, status.safe, status.finalized)
        unsafe, local_safe, safe, finalized = (-1 if ref is None else ref.number for ref in refs)
        return unsafe, local_safe, safe, finalized

    def results(self) -> list[FollowResult]:
        return [action.result for action in self.harness.done(FollowSourceRead)]

    def problem(self) -> str | None:
        """Return what operators are told of a block that the engine does not get."""
        shown = [action for action in self.harness.actions if isinstance(action, act.FetchLasts | act.FetchEnded)]
        return shown[-1].problem if shown and isinstance(shown[-1], act.FetchLasts) else None

    def run(self, seconds: int, hold: CallPurpose | None = None) -> None:
        """Lets time pass; calls of `hold` stay open."""
        for _ in range(seconds):
            self.harness.wait(1.0)
            if hold is None:
                self.harness.run_until_idle(2000)
            else:
                self.harness.run_others(hold)

    def branch(self, at: int, length: int) -> list[L2BlockRef]:
        """Return the chain with so many other blocks above a number."""
        return [*self.refs[: at + 1], *self.chain.extend(self.refs[at], length, [self.chain.user])]


MOVED = "moved to the follow source's chain"
GIVEN_UP = "giving up on the follow source's block"

HOLD = HOLD_BLOCK_TIMES * chain_with().rollup.block_time
"""Seconds for which nothing is inserted or built."""


def test_an_engine_that_is_behind_is_pointed_at_the_source() -> None:
    """[FSR3] Our own blocks are not inserted meanwhile. If it takes longer, it is a problem for /readyz."""
    follower = Follower(2, (34, 34, 8))
    follower.harness.gossip(follower.chain.payloads[follower.refs[3].hash])
    follower.run(HOLD - 1)
    assert (follower.heads, follower.problem()) == ((2, 0, 0, 0), None)
    assert follower.engine.syncing_to == 34
    follower.run(1)
    wanted = f"the execution engine does not get the follow source's local safe head {follower.refs[34]} from its peers"
    assert (follower.heads, follower.problem()) == ((3, 0, 0, 0), f"{wanted}; our own chain goes on")
    follower.engine.fetch()
    follower.says(36, 36, 10)
    follower.round()
    assert follower.heads == (36, 36, 36, 10)
    assert follower.problem() is None


def test_another_chain_is_moved_to() -> None:
    """[FSR3]"""
    follower = Follower(20)
    follower.says(10, 8, 4)
    others = follower.branch(8, 8)
    follower.says(14, 12, 4, others)
    assert follower.heads == (14, 14, 12, 4)
    assert follower.harness.core.heads is not None
    assert follower.harness.heads.unsafe == others[14]
    moved = follower.harness.logged(MOVED)[-1]
    assert (moved["old"], moved["new"]) == (follower.refs[20], others[14])


def test_a_sequencer_starts_over_on_another_chain() -> None:
    """[FSR3] With the source's heads: no search takes the safe head back meanwhile."""
    follower = Follower(20, sequencer_enabled=True, sequencer_stopped=True)
    follower.says(10, 8, 4)
    follower.harness.actions.clear()
    others = follower.branch(8, 8)
    follower.says(14, 12, 4, others)
    follower.round()
    (reset,) = follower.harness.done(act.ResetStarted)
    assert reset.reason == f"the follow source has the safe head {others[14]}"
    assert follower.heads == (14, 14, 12, 4)
    published = [item.status.safe for item in follower.harness.done(act.PublishStatus)]
    assert {None if safe is None else safe.number for safe in published} == {None, 12}
    (start,) = follower.harness.logged("found L2 heads to start with")
    assert (start["unsafe"], start["safe"], start["finalized"]) == (others[14], others[12], others[4])


def test_the_signer_is_shown_what_the_source_has_proven_to_be_replaced() -> None:
    """[FSR11] Its word alone shows nothing: not a safe head on our chain, and not one that the engine does not have."""
    follower = Follower(20, sequencer_enabled=True)
    follower.says(10, 8, 4)
    others = follower.branch(8, 8)
    follower.engine.lost |= {ref.hash for ref in others[9:]}
    follower.says(14, 12, 4, others)
    follower.round()
    assert {item.derived for item in follower.harness.done(act.PublishBlock)} == {0}
    follower.engine.fetch()
    follower.round()
    follower.round()
    (moved,) = [item for item in follower.harness.done(act.LogLine) if item.text == MOVED]
    del follower.harness.actions[: follower.harness.actions.index(moved)]
    published = follower.harness.done(act.PublishBlock)
    assert [item.payload.block_number for item in published][:2] == [15, 16] and published[0].parent == others[14]
    assert {item.derived for item in published} == {14}


def test_what_is_shown_ends_with_a_new_start() -> None:
    follower = Follower(2, (34, 34, 8))
    follower.run(HOLD)
    assert follower.problem() is not None
    follower.harness.source = None
    follower.harness.request(ResetDerivationRequest(1))
    follower.run(2)
    assert follower.problem() is None


def test_a_start_on_another_chain_that_the_engine_has_lost_is_searched_for() -> None:
    follower = Follower(20, sequencer_enabled=True, sequencer_stopped=True)
    follower.says(10, 8, 4)
    others = follower.branch(8, 8)
    follower.harness.source = FollowStatus(None, others[14], others[12], others[4])
    follower.harness.wait(10.5)
    follower.harness.run_others(CallPurpose.START)
    follower.engine.lose(6)
    for _ in range(3):
        follower.round()
    reset = follower.harness.done(act.ResetStarted)[1]
    assert str(reset.reason) == f"the engine does not have block {others[12]}, which is to be its safe head"
    assert follower.engine.syncing_to == 14
    follower.engine.fetch()
    for _ in range(3):
        follower.round()
    assert follower.heads == (14, 14, 12, 4)


def test_an_engine_that_refuses_the_source_s_chain_is_named() -> None:
    follower = Follower(20)
    follower.says(10, 8, 6)
    others = follower.branch(4, 30)
    # It agrees on nothing that is final here, but has nothing at that height to compare.
    follower.harness.source = FollowStatus(None, others[30], others[29], others[3])
    follower.round()
    assert follower.heads == (20, 10, 8, 6)
    assert "which contradicts the finalized block" in follower.harness.failures[-1]
    follower.says(12, 10, 6)
    assert follower.heads == (20, 12, 10, 6), "it is followed again once it tells the truth"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (ForkchoiceAnswer("INVALID", None, "bad block"), "INVALID, bad block"),
        (ErrorAnswer(-32000, "busy"), "busy (-32000)"),
    ],
)
def test_other_refusals_of_the_engine(answer: Any, text: str) -> None:
    follower = Follower(2)
    follower.shows(8, 8, 2)
    follower.harness.wait(10.5)
    follower.harness.run_others(CallPurpose.FOLLOW_HEAD)
    follower.harness.answer(follower.harness.call(CallPurpose.FOLLOW_HEAD), answer)
    assert follower.harness.failures[-1].endswith(text)
    assert follower.heads == (2, 0, 0, 0)


def test_an_engine_that_lost_blocks_has_its_own_heads_shown_and_is_pointed_at_the_source() -> None:
    """[FSR3] As op-node, which sends the heads again: what the engine answers starts the search for others."""
    follower = Follower(20)
    follower.says(16, 14, 8)
    follower.engine.lose(10)
    follower.says(18, 17, 9)
    assert "block 18 of our chain is missing in the execution engine" in follower.harness.failures
    assert len(follower.harness.done(act.ResetStarted)) == 1
    assert follower.heads == (10, 8, 8, 8)
    follower.round()
    assert follower.engine.syncing_to == 18
    follower.engine.fetch()
    follower.round()
    assert follower.heads == (18, 18, 17, 9)


def test_an_engine_that_was_rewound_gets_the_heads_again() -> None:
    """[FSR3] It has the blocks still."""
    follower = Follower(20)
    follower.says(16, 14, 8)
    follower.engine.head = follower.refs[10].hash
    follower.says(18, 17, 9)
    assert follower.engine.head == follower.refs[20].hash
    follower.round()
    assert follower.heads == (20, 18, 17, 9)
    assert not follower.harness.done(act.ResetStarted)


def test_the_engine_gets_on_with_the_chain_of_a_source_that_is_away() -> None:
    """[FSR10] The engine has it all by then, but nobody says so."""
    follower = _waiting_for_a_lost_source()
    follower.engine.fetch()
    for number in (3, 4, 35, 36):
        follower.harness.gossip(follower.chain.payloads[follower.refs[number].hash])
    successes = follower.results().count(FollowResult.SUCCESS)
    follower.run(5)
    assert follower.heads == (36, 34, 34, 0)
    assert follower.results().count(FollowResult.SUCCESS) == successes
    assert not follower.harness.done(act.WorkRecovered), "the source is still away"
    assert follower.problem() is None
    follower.says(36, 35, 12)
    assert follower.heads == (36, 36, 35, 12)


def test_our_own_chain_goes_on_without_a_source_that_is_away() -> None:
    """[FSR10] What the engine has of the source's chain counts first."""
    follower = _waiting_for_a_lost_source()
    follower.harness.gossip(follower.chain.payloads[follower.refs[3].hash])
    follower.run(HOLD - 1)
    assert (follower.heads[0], follower.problem()) == (2, None)
    follower.run(1)
    assert follower.heads[0] == 3 and follower.problem() is not None
    follower.says(34, 34, 8)
    follower.engine.fetch()
    follower.round()
    assert follower.heads == (34, 34, 34, 8) and follower.problem() is None
    assert not follower.harness.logged(GIVEN_UP)


def test_a_target_whose_l1_origin_is_reorged_is_given_up() -> None:
    follower = _waiting_for_a_lost_source()
    follower.chain.reorg("b", 102)
    follower.engine.fetch()
    follower.run(5)
    assert follower.heads == (2, 0, 0, 0)
    assert "is not canonical any more" in follower.harness.logged(GIVEN_UP)[0]["reason"]
    assert {item.task for item in follower.harness.done(act.WorkFailed)} == {"follow source"}


def test_an_engine_that_has_the_target_and_still_syncs_is_asked_again() -> None:
    follower = _waiting_for_a_lost_source()
    follower.engine.fetch()
    follower.run(2, hold=CallPurpose.FOLLOW_HEAD)
    call = follower.harness.call(CallPurpose.FOLLOW_HEAD)
    for answer in (Unavailable("away"), ForkchoiceAnswer("SYNCING")):
        follower.harness.answer(follower.harness.call(CallPurpose.FOLLOW_HEAD), answer)
        assert follower.heads[0] == 2
        follower.run(5, hold=CallPurpose.FOLLOW_HEAD)
        assert follower.harness.call(CallPurpose.FOLLOW_HEAD).call == call.call
    follower.harness.run_until_idle()
    assert follower.heads == (34, 34, 34, 0)


def test_a_sequencer_gets_on_with_the_chain_of_a_source_that_is_away() -> None:
    """[FSR10] It starts over with the block that the engine has fetched, or goes on without it."""
    for fetched in (True, False):
        follower = _waiting_for_a_lost_source(sequencer_enabled=True)
        assert follower.heads[0] < 10
        if fetched:
            follower.engine.fetch()
        follower.run(HOLD + 1)
        assert follower.heads[0] > 34 and follower.heads[1:] == ((34, 34, 0) if fetched else (0, 0, 0))
        dropped = [line["reason"] for line in follower.harness.logged(GIVEN_UP)]
        assert dropped == ([] if fetched else ["our own chain is as long"])


def _waiting_for_a_lost_source(**config: Any) -> Follower:
    """Return a node at block 2, whose engine was pointed at block 34 by a source that is away since."""
    follower = Follower(2, (34, 34, 8), **config)
    assert follower.heads[1] == 0 and follower.engine.syncing_to == 34
    follower.harness.source = None
    return follower


CHAIN = chain_with(l1_step=2)
MAIN = CHAIN.build(30)
SIDE = [*MAIN[:11], *CHAIN.extend(MAIN[10], 20, [CHAIN.user])]
HEAD = st.tuples(st.booleans(), st.integers(0, 30))
STEP = st.one_of(
    st.tuples(st.just("status"), st.tuples(HEAD, HEAD, HEAD)),
    st.tuples(st.just("honest"), st.tuples(st.booleans(), st.lists(st.integers(0, 30), min_size=3, max_size=3))),
    st.tuples(st.just("away"), st.none()),
    st.tuples(st.just("fetch"), st.none()),
    st.tuples(st.just("gossip"), HEAD),
    st.tuples(st.just("wait"), st.floats(0.1, 12.0)),
)


@settings(deadline=None, max_examples=40)
@given(has=st.integers(0, 30), fetched=st.booleans(), steps=st.lists(STEP, max_size=14))
def test_no_source_breaks_the_heads(has: int, fetched: bool, steps: list[tuple[str, Any]]) -> None:
    """Whatever a source says, the heads are of one chain, the engine has them, and what is final stays final.

    Without the source gossip goes on, and an honest source is followed in the end, unless what it says contradicts
    what is final."""
    engine = ModelEngine(CHAIN)
    engine.head = MAIN[has].hash
    engine.lost = {ref.hash for ref in (*MAIN[has + 1 :], *SIDE[11:])}
    harness = CoreHarness(CHAIN, engine, follow_url="http://source")
    harness.move_l1(140)
    harness.run_until_idle()
    final, heads, tip = MAIN[0], harness.core.heads, 0
    wait = ("wait", 11.0)
    lost = [("away", None), *([("fetch", None)] if fetched else []), *[wait] * 3, ("child", None), wait]
    result = [("fetch", None), ("honest", (False, [24, 22, 20])), *[wait] * 4]
    for kind, value in [*steps, *lost, ("grown", None), *result]:
        if kind == "status":
            local_safe, safe, finalized = ((SIDE if side else MAIN)[number] for side, number in value)
            harness.source = FollowStatus(None, local_safe, safe, finalized)
        elif kind == "honest":
            finalized, safe, local_safe = ((SIDE if value[0] else MAIN)[number] for number in sorted(value[1]))
            harness.source = FollowStatus(None, local_safe, safe, finalized)
        elif kind == "away":
            harness.source = None
        elif kind == "fetch":
            engine.fetch()
        elif kind == "gossip":
            ref = (SIDE if value[0] else MAIN)[value[1]]
            if ref.hash in CHAIN.payloads:
                harness.gossip(CHAIN.payloads[ref.hash])
        elif kind == "child":
            assert heads is not None
            tip = heads.unsafe.number
            if tip < 30:
                harness.gossip(CHAIN.payloads[(SIDE if heads.unsafe in SIDE[11:] else MAIN)[tip + 1].hash])
        elif kind == "grown":
            assert heads is not None and heads.unsafe.number > min(tip, 29)
        else:
            harness.wait(value)
        harness.run_until_idle()
        heads = harness.core.heads
        assert heads is not None
        chain = SIDE if heads.unsafe in SIDE[11:] else MAIN
        ordered = (heads.finalized, heads.safe, heads.pending_safe, heads.unsafe)
        assert [ref.number for ref in ordered] == sorted(ref.number for ref in ordered)
        assert all(ref == chain[ref.number] for ref in ordered) and engine.has(heads.unsafe.hash)
        assert heads.finalized.number >= final.number and chain[final.number] == final
        final = heads.finalized
    if final not in SIDE[11:]:
        assert heads is not None and final.number >= 20 and heads.safe.number >= 22 and heads.unsafe.number >= 24
