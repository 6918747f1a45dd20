"""The engine core in any order of events with an interop process that verifies, denies and goes back at any time, and
with lives of the engine process that end in any step [IV5, IV6, IV10, RW1, RW4, LB3, LB4, LB6]."""

from itertools import takewhile
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

from rollup_node.stages.engine.calls.actions import PublishStatus
from rollup_node.stages.engine.calls.calls import PendingCall
from rollup_node.stages.engine.calls.engine_api import NewPayload
from rollup_node.stages.engine.core.verification_rows import LABEL_SECONDS
from rollup_node.stages.protocol.types import BlockId, Hash, L2BlockRef
from tests.stages.engine.core.test_walk import Walk
from tests.support.chains.chain_fixture import GENESIS_TIME
from tests.support.engine.core_harness import CoreHarness


class JudgedHarness(CoreHarness):
    """`blocks_denied` are the hashes that were published last."""

    blocks_denied: frozenset[Hash] = frozenset()

    def step(self) -> list[PendingCall]:
        calls = super().step()
        for pending in calls:
            if isinstance(pending.call, NewPayload):
                assert pending.call.payload.block_hash not in self.blocks_denied, "[IV5]"
        return calls


class Round(NamedTuple):
    """A verified head, and the L1 block with which it became safe."""

    head: L2BlockRef
    l1: BlockId


class VerifiedWalk(Walk):
    """`rounds` are the verified heads, `go_back` is the block of the pending transition, `floors` are the blocks that
    the heads are at most where a transition is first complied with, `ever` all heads that were ever verified."""

    harness_kind = JudgedHarness
    verified = records = True
    activation = 0
    denials = rewinds = lives = 0

    def judge(self, is_begun: bool) -> None:
        """At the first call, say what is known, if it is time; later, do all that the interop process has to do."""
        if not hasattr(self, "rounds"):
            self.rounds: list[Round] = []
            self.denied: dict[Hash, L2BlockRef] = {}
            self.final: L2BlockRef | None = None
            self.transition = 0
            self.go_back: BlockId | None = None
            self.floors: dict[int, int] = {}
            self.ever = {self.chain.genesis.hash}
            if is_begun:
                self.publish()
            return
        self.harness.wait(LABEL_SECONDS)  # a sequencer that catches up lets no time pass
        heads, el_sync = self.harness.core.heads, self.harness.el_sync
        if el_sync.in_progress and el_sync.target is None:
            self.tip_moves(1)
            self.harness.engine.fetch()
        if not self.act() and heads is None:
            self.publish()
        # Nothing is sequenced below a replacement, and no label moves below the last round.
        heights = [*(block.number for block in self.denied.values()), self.next_number() - 1]
        if heads is not None and heads.safe.number < max(heights):
            self.harness.derive()

    def act(self) -> bool:
        """Do what is due, with nothing denied; whether there was something."""
        return self.finish() or self.leave() or self.advance(100)

    def publish(self) -> None:
        verified = self.rounds[-1].head.id if self.rounds else None
        final = None if self.final is None else self.final.id
        denied = [block.id for block in self.denied.values()]
        self.harness_now.blocks_denied = frozenset(self.denied)
        self.watched(
            "verdict",
            lambda: self.harness.judge(verified, final, denied, self.transition, self.go_back, self.activation),
        )

    @property
    def harness_now(self) -> JudgedHarness:
        assert isinstance(self.harness, JudgedHarness)
        return self.harness

    @property
    def local_safe(self) -> L2BlockRef | None:
        """The local safe head of a chain that has complied with all transitions."""
        status = self.harness.status
        return status.local_safe if status.transition == self.transition else None

    def at(self, number: int, head: L2BlockRef) -> L2BlockRef:
        while head.number > number:
            head = self.chain.known[head.parent_hash].ref
        return head

    def next_number(self) -> int:
        first = max(0, -(-(self.activation - GENESIS_TIME) // self.chain.rollup.block_time))
        return self.rounds[-1].head.number + 1 if self.rounds else first

    # --- what the interop process does -----------------------------------------------------------------------------

    def finish(self) -> bool:
        if self.go_back is None or self.harness.status.transition != self.transition:
            return False
        self.go_back = None
        self.publish()
        return True

    def leave(self) -> bool:
        """Rounds go whose L1 block L1 has left, and those of blocks that the chain does not have any more."""
        safe = self.local_safe
        kept = len(list(takewhile(lambda item: self.stands(item, safe), self.rounds)))
        if kept == len(self.rounds):
            return False
        self.go_back_to(kept)
        return True

    def stands(self, item: Round, safe: L2BlockRef | None) -> bool:
        if self.chain.l1_ref(item.l1.number).id != item.l1:
            return False
        return safe is None or safe.number < item.head.number or self.at(item.head.number, safe) == item.head

    def go_back_to(self, count: int) -> None:
        """Keep so many rounds."""
        first, genesis = self.next_number() - len(self.rounds), self.chain.genesis
        del self.rounds[count:]
        floor = self.rounds[-1].head.id if self.rounds else BlockId(max(0, first - 1), bytes(32))
        self.denied = {block: ref for block, ref in self.denied.items() if ref.number <= floor.number}
        if self.final is not None and self.final.number > floor.number:
            self.final = self.rounds[-1].head if self.rounds else None
        self.begin_transition(floor if floor.number else genesis.id)
        self.floors[self.transition] = floor.number
        type(self).rewinds += 1

    def begin_transition(self, go_back: BlockId) -> None:
        self.transition += 1
        self.go_back = go_back
        self.publish()

    @rule(count=st.integers(1, 4))
    def verify(self, count: int) -> None:
        self.advance(count)

    def advance(self, count: int) -> bool:
        """So many blocks are verified, as far as they are local safe, and on the last one."""
        safe, before = self.local_safe, len(self.rounds)
        while safe is not None and self.go_back is None and self.next_number() <= safe.number and count:
            block, entry = self.at(self.next_number(), safe), self.harness.record.l1_of(self.next_number())
            if self.rounds and block.parent_hash != self.rounds[-1].head.hash:
                break
            # After EL sync there is no record of the blocks before.
            l1 = self.chain.l1_ref(self.harness.l1_head).id if entry is None else entry.l1_block
            self.rounds.append(Round(block, l1))
            self.ever.add(block.hash)
            count -= 1
        if before != len(self.rounds):
            self.publish()
        return before != len(self.rounds)

    @rule()
    def finalize(self) -> None:
        """What L1 has finalized is final."""
        done = [item.head for item in self.rounds if item.l1.number <= self.finalized_l1]
        if done and self.go_back is None:
            self.final = done[-1]
            self.publish()

    @rule()
    def deny(self) -> None:
        """The block after the last verified one is invalid."""
        safe, number = self.local_safe, self.next_number()
        if safe is None or self.go_back is not None or not 0 < number <= safe.number:
            return
        block = self.at(number, safe)
        has_users = len(self.chain.payloads[block.hash].transactions) > 1
        if has_users and (not self.rounds or block.parent_hash == self.rounds[-1].head.hash):
            self.denied[block.hash] = block
            self.begin_transition(self.at(number - 1, safe).id)
            type(self).denials += 1

    @rule(user=st.booleans(), events=st.integers(0, 8))
    def derive_and_deny(self, user: bool, events: int) -> None:
        """The interop process is fast, and then other things happen."""
        self.derive_and_work(True, True, 8)
        self.act()
        self.derive_and_work(True, True, 8)
        self.deny()
        self.work(events, reads_first=not user)
        self.derive_and_work(user, True, events)

    @rule(rounds=st.integers(0, 3))
    def go_back_some_rounds(self, rounds: int) -> None:
        """L1 has left their L1 block; nothing final is left."""
        final = 0 if self.final is None else self.final.number
        heads = self.harness.core.heads
        final = max(final, 0 if heads is None else heads.finalized.number)
        kept = sum(item.head.number <= final for item in self.rounds)
        if heads is not None and self.rounds:
            self.go_back_to(max(kept, len(self.rounds) - rounds - 1))

    @rule()
    def interop_process_acts(self) -> None:
        self.act()

    @rule()
    def interop_process_restarts(self) -> None:
        """It says again what it has said."""
        self.publish()

    @rule(is_late=st.booleans())
    def engine_process_restarts(self, is_late: bool) -> None:
        """Another life, with what the engine and the database have; it may hear of the interop process later."""
        old = self.harness
        new = JudgedHarness(self.chain, old.engine, **self.config)
        new.record, new.keeps, new.latest, new.now = old.record, old.keeps, old.latest, old.now
        new.committed = old.committed
        new.derivation = old.derivation
        self.harness = new
        self.rpc_requests.clear()
        self.payload_requests.clear()
        self.building = False
        self.harness.move_l1(old.l1_head, self.finalized_l1)
        self.conducted = self.config["conductor_enabled"]
        type(self).lives += 1
        if not is_late:
            self.publish()

    # --- checks ----------------------------------------------------------------------------------------------------

    @invariant()
    def safe_blocks_are_verified(self) -> None:
        """[LB3]"""
        status = self.harness.status if hasattr(self, "ever") else None
        if status is not None and status.safe is not None:
            assert status.safe.timestamp < self.activation or status.safe.hash in self.ever, status.safe

    @invariant()
    def no_denied_block_stands_once_it_is_worked_off(self) -> None:
        """[RW1]"""
        heads = self.harness.core.heads if hasattr(self, "ever") else None
        if heads is None or self.harness.status.transition != self.transition:
            return
        head = heads.unsafe
        while head.number > heads.finalized.number:
            assert head.hash not in self.denied, head
            head = self.chain.known[head.parent_hash].ref

    @invariant()
    def a_chain_that_has_complied_was_at_the_block(self) -> None:
        """[RW1, RW4]"""
        if hasattr(self, "floors"):
            for status in self.harness.done(PublishStatus):
                floor = self.floors.pop(status.status.transition, None)
                unsafe = status.status.unsafe
                assert floor is None or unsafe is None or unsafe.number <= floor, (floor, unsafe)


class CrossingWalk(VerifiedWalk):
    """Interop begins with the fourth block."""

    activation = GENESIS_TIME + 8


@pytest.mark.parametrize(("walk", "examples"), [(VerifiedWalk, 40), (CrossingWalk, 15)])
def test_any_order_of_verdicts_keeps_the_rules_and_leaves_a_way_on(walk: type[VerifiedWalk], examples: int) -> None:
    limits = settings(max_examples=examples, stateful_step_count=40, deadline=None, report_multiple_bugs=False)
    run_state_machine_as_test(walk, settings=limits)
    assert walk.recorded and walk.denials and walk.rewinds and walk.lives
