"""The engine core in any order of events, with an engine that works, fails, syncs, refuses, restarts and loses blocks,
over an L1 that reorganizes, and perhaps under a conductor: heads keep their rules, calls are made one at a time and
once, no block passes the conductor, and there is always a way on."""

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rollup_node.stages.engine.calls.actions import AttributesProcessed, LogLine, PublishBlock, ResetStarted
from rollup_node.stages.engine.calls.calls import CallPurpose, PendingCall
from rollup_node.stages.engine.calls.engine_api import ForkchoiceUpdate, NewPayload
from rollup_node.stages.engine.calls.heads import Forkchoice, Heads
from rollup_node.stages.engine.calls.safe_head_entries import ResetSafeHeads
from rollup_node.stages.engine.calls.stimulus_log import SIZE
from rollup_node.stages.engine.core.engine_core import AdminRequest
from rollup_node.stages.engine.starts.el_sync import RESEND_SECONDS
from rollup_node.stages.messages import control
from rollup_node.stages.messages.engine import L2BlocksRequest, StartRequest
from rollup_node.stages.messages.p2p import PayloadRequest, PayloadResponse
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import L2BlockRef
from tests.support.chains.chain_fixture import chain_with
from tests.support.engine.core_harness import P2P, RPC, CoreHarness
from tests.support.engine.engine_faults import FAILING, FAULTS, bad_answer, is_deposits_only

OFFSET = 1e6
"""Seconds behind the end of EL sync: no L1 reorg of the walk reaches what is finalized then."""


class Role(Enum):
    """What the node does; `conducted` is a sequencer with a conductor."""

    VERIFIER = "verifier"
    SEQUENCER = "sequencer"
    CONDUCTED = "conducted"


class Walk(RuleBasedStateMachine):
    """All times are virtual. What a rule does to the core goes through `watched`, which checks the heads' moves."""

    roles: tuple[Role, ...] = tuple(Role)
    harness_kind: type[CoreHarness] = CoreHarness
    verified = False
    records = False
    """Whether there is a safe head database."""
    recorded = 0
    """Walks in which safe heads were recorded."""

    @initialize(
        role=st.integers(0, 5),
        holocene=st.booleans(),
        running=st.booleans(),
        el_sync=st.sampled_from(["", "", "geth", "reth"]),
        length=st.integers(0, 8),
        safe=st.integers(0, 8),
    )
    def begin(self, role: int, holocene: bool, running: bool, el_sync: str, length: int, safe: int) -> None:
        """With EL sync the engine lacks the blocks above the safe one, and perhaps has no finalized block."""
        self.role = self.roles[role % len(self.roles)]
        forks = ("regolith", "canyon", "delta", "ecotone", "fjord", "granite", *(("holocene",) if holocene else ()))
        self.chain = chain_with(dict.fromkeys(forks, 0), l1_step=4)
        self.config: dict[str, Any] = {
            "sequencer_enabled": self.role is not Role.VERIFIER,
            "sequencer_l1_confs": 0,
            "conductor_enabled": self.role is Role.CONDUCTED,
            "p2p": True,
            "finality_delay": 1,
            "el_sync": bool(el_sync),
            "engine_kind": el_sync or "geth",
            "offset_el_safe": OFFSET if el_sync else 0.0,
            "safedb_path": "safe" if self.records else None,
            "verified": self.verified,
        }
        self.harness = self.harness_kind(self.chain, **self.config)
        self.conducted = self.role is Role.CONDUCTED
        refs = self.chain.build(length, per_epoch=2)
        engine = self.harness.engine
        engine.head, engine.safe = refs[length].hash, refs[min(safe, length)].hash
        engine.finalized = self.chain.genesis.hash
        self.tip = refs[length]
        if el_sync:
            engine.head = engine.safe
            engine.lost = {ref.hash for ref in refs[safe + 1 :]}
            engine.safe = engine.finalized = b"" if safe % 2 else engine.finalized
        self.harness.move_l1(105)
        self.branch, self.finalized_l1 = 0, 100
        self.requests = 0
        self.rpc_requests: set[int] = set()
        self.payload_requests: set[int] = set()
        self.building = False
        self.judge(running)
        if running:
            self.harness.run_until_idle()
            if self.conducted:
                self.run_sequencer()
                self.harness.run_until_idle()
                assert self.harness.status.sequencer_active
            self.harness.derive()

    def judge(self, is_begun: bool) -> None:
        """An interop process, if there is one, says what it knows, or decides something."""

    # --- checks ----------------------------------------------------------------------------------------------------

    def watched(self, cause: CallPurpose | str, act: Callable[[], object]) -> None:
        """Do something to the core; the heads may only move as its cause allows."""
        before, seen = self.harness.core.heads, len(self.harness.actions)
        act()
        for action in self.harness.actions[seen:]:
            if isinstance(action, PublishBlock):
                self.check_commit(action.payload)
        after = self.harness.core.heads
        ended = self.harness.actions[seen:]
        restarted = any(isinstance(action, LogLine) and action.text == "derivation restarted" for action in ended)
        if restarted or any(isinstance(action, AttributesProcessed | ResetStarted) for action in ended):
            self.building = False
        if before is None or after is None:
            assert before is after or after is None or cause is CallPurpose.START, f"heads appeared by {cause}"
            return
        if before == after:
            return
        moved = {name for name in Heads.__struct_fields__ if getattr(before, name) != getattr(after, name)}
        allowed = {
            "step": {"finalized", "pending_safe"},
            CallPurpose.ATTRIBUTES: {"unsafe", "pending_safe", "safe", "cross_safe"},
            CallPurpose.VERIFIED_BLOCK: {"cross_safe", "finalized"},
            CallPurpose.FORKCHOICE: {"unsafe"},
            CallPurpose.UNSAFE_BLOCK: {"unsafe"},
            CallPurpose.UNSAFE_GAP: {"unsafe"},
            CallPurpose.SEQUENCER: {"unsafe"},
        }.get(cause, set())
        assert moved <= allowed, f"{moved} moved by {cause}"
        assert after.safe.number >= before.safe.number and after.finalized.number >= before.finalized.number
        if cause == "step" and "pending_safe" in moved:
            assert after.pending_safe == after.safe, "derivation restarts at the safe head"
        if cause in (CallPurpose.UNSAFE_BLOCK, CallPurpose.SEQUENCER) and not self.restores(before, after):
            assert after.unsafe.parent_hash == before.unsafe.hash, "a block is put on the tip alone"

    def check_commit(self, payload: ExecutionPayload) -> None:
        """A block is published or inserted."""
        assert not self.conducted or payload in self.harness.committed, "a block passes the conductor"

    def restores(self, before: Heads, after: Heads) -> bool:
        """Whether an update that this work needed first has brought a displaced tip back."""
        return before.pending_safe == after.pending_safe and after.unsafe.number >= before.unsafe.number

    def is_ancestor(self, low: L2BlockRef, high: L2BlockRef) -> bool:
        while high.number > low.number:
            high = self.chain.known[high.parent_hash].ref
        return high == low

    @invariant()
    def heads_are_on_one_chain(self) -> None:
        heads = self.harness.core.heads if hasattr(self, "harness") else None
        if heads is not None:
            assert self.is_ancestor(heads.finalized, heads.verified_safe)
            assert self.is_ancestor(heads.verified_safe, heads.safe)
            assert self.is_ancestor(heads.safe, heads.pending_safe)
            assert self.is_ancestor(heads.pending_safe, heads.unsafe)

    @invariant()
    def final_blocks_are_recorded(self) -> None:
        """[SDB13]"""
        heads = self.harness.core.heads if hasattr(self, "harness") else None
        if heads is not None and self.harness.record.entries:
            assert heads.finalized.number <= self.harness.record.entries[-1].safe_head.number

    @invariant()
    def published_heads_are_those_of_the_engine(self) -> None:
        """Together they are a start, which the engine returned, or an update that it has accepted."""
        status = self.harness.status if hasattr(self, "harness") else None
        if status is None or status.unsafe is None or status.safe is None or status.finalized is None:
            return
        starts = {
            Forkchoice(line["unsafe"].hash, line["safe"].hash, line["finalized"].hash)
            for line in self.harness.logged("found L2 heads to start with")
        }
        published = Forkchoice(status.unsafe.hash, status.safe.hash, status.finalized.hash)
        assert published in self.harness.engine.accepted | starts, "a head that the engine does not have"

    @invariant()
    def calls_are_made_once(self) -> None:
        if not hasattr(self, "harness"):
            return
        lanes = [pending.purpose.lane for pending in self.harness.open]
        assert len(lanes) == len(set(lanes)), "one call a lane"
        numbers = [pending.number for pending in self.harness.open]
        assert len(numbers) == len(set(numbers))

    @invariant()
    def log_is_bounded(self) -> None:
        if hasattr(self, "harness"):
            assert len(self.harness.core.log) <= SIZE

    # --- the process -----------------------------------------------------------------------------------------------

    @rule()
    def step(self) -> None:
        made: list[PendingCall] = []
        self.watched("step", lambda: made.extend(self.harness.step()))
        for pending in made:
            call = pending.call
            if pending.purpose is CallPurpose.SEQUENCER and isinstance(call, NewPayload):
                self.check_commit(call.payload)
            if (
                pending.purpose is CallPurpose.ATTRIBUTES
                and isinstance(call, ForkchoiceUpdate)
                and call.attributes is not None
            ):
                self.building = True
            elif self.building and pending.purpose.lane is None and pending.purpose is not CallPurpose.ATTRIBUTES:
                assert self.is_update_first(pending), f"{pending} while a derived block is built"

    def is_update_first(self, pending: PendingCall) -> bool:
        """Whether a call belongs to work of before the build: its update, or that of a held answer."""
        return isinstance(pending.call, ForkchoiceUpdate) and pending.purpose is not CallPurpose.FORKCHOICE

    @rule(seconds=st.sampled_from([0.05, 0.11, 1.0, 2.0, 12.0]))
    def wait(self, seconds: float) -> None:
        """Nothing is due before the time that the core names."""
        self.step()
        self.step()  # L1 blocks may have arrived during the first one
        due = self.harness.core.wait_until(self.harness.now)
        self.harness.wait(seconds)
        before = len(self.harness.open)
        self.step()
        assert len(self.harness.open) == before or self.harness.now.monotonic >= due

    @rule(count=st.integers(1, 12), reads_first=st.booleans())
    def work(self, count: int, reads_first: bool) -> None:
        """Everything works for a while; calls that move heads may hang meanwhile."""
        for _ in range(count):
            self.step()
            others = [pending for pending in self.harness.open if pending.purpose.lane is not None]
            pending = others[0] if reads_first and others else self.harness.head_call() or next(iter(others), None)
            if pending is not None:
                self.answer(pending)

    def answer(self, pending: PendingCall) -> None:
        if isinstance(pending.call, ResetSafeHeads):
            last = self.harness.record.entries[-1:]
            assert all(item.safe_head.number >= pending.call.safe.number for item in last), "a start leaves no gap"
        self.watched(pending.purpose, partial(self.harness.answer, pending))

    @rule(what=st.sampled_from(FAILING), fault=st.sampled_from(FAULTS), concluding=st.booleans())
    def fail_at(self, what: tuple[CallPurpose, type], fault: str, concluding: bool) -> None:
        """A call of this kind has a fault."""
        pending = self.work_until(what, concluding)
        if pending is not None:
            self.answer_with_fault(pending, fault)

    @rule(what=st.sampled_from(FAILING), count=st.integers(0, 12), seconds=st.sampled_from([0.0, 0.5, 2.0]))
    def reset_at(self, what: tuple[CallPurpose, type], count: int, seconds: float) -> None:
        """A reset while a call of this kind is open, which is answered later."""
        pending = self.work_until(what, concluding=True)
        number = self.rpc_request()
        self.watched("admin", lambda: self.harness.request(control.ResetDerivationRequest(number)))
        self.wait(seconds)
        self.work(count, reads_first=True)
        if pending in self.harness.open:
            self.answer(pending)

    def work_until(self, what: tuple[CallPurpose, type], concluding: bool) -> PendingCall | None:
        """Everything works until a call of this kind is open, for some calls and pauses at most."""
        work, kind = what
        sequencing = work in (CallPurpose.SEQUENCER, CallPurpose.COMMIT, CallPurpose.LEADER)
        if sequencing:
            self.run_sequencer()
        else:
            self.derive(user=True, concluding=concluding)
        for _ in range(24 if sequencing else 12):
            self.step()
            for pending in self.harness.open:
                if pending.purpose is work and isinstance(pending.call, kind):
                    return pending
            if self.harness.open:
                self.answer(self.harness.head_call() or self.harness.open[0])
            elif sequencing:
                self.harness.sleep()
        return None

    def run_sequencer(self) -> None:
        if self.role is not Role.VERIFIER and not self.harness.status.sequencer_active:
            self.admin("start")

    @precondition(lambda self: self.harness.open)
    @rule(data=st.data(), fault=st.sampled_from(FAULTS))
    def answer_badly(self, data: st.DataObject, fault: str) -> None:
        self.answer_with_fault(data.draw(st.sampled_from(self.harness.open)), fault)

    def answer_with_fault(self, pending: PendingCall, fault: str) -> None:
        if fault == "invalid" and is_deposits_only(pending):
            fault = "error"
        if isinstance(pending.call, control.OutputRequest | PayloadRequest):
            lost = {pending.call.id}  # the requester would repeat it
            self.rpc_requests -= lost
            self.payload_requests -= lost
        self.watched(pending.purpose, lambda: self.harness.answer(pending, bad_answer(pending, fault)))

    @precondition(lambda self: self.harness.open)
    @rule(data=st.data())
    def answer_twice(self, data: st.DataObject) -> None:
        pending = data.draw(st.sampled_from(self.harness.open))
        answer = self.harness.good_answer(pending)
        self.answer(pending)
        self.watched("late", lambda: self.harness.core.answer(pending, answer, self.harness.now))

    # --- the engine ------------------------------------------------------------------------------------------------

    @rule(back=st.integers(0, 3))
    def engine_restarts(self, back: int) -> None:
        """It comes back without builds, and perhaps without its last blocks; never without what it has finalized."""
        engine = self.harness.engine
        final = engine.block("finalized")
        number = self.chain.known[engine.head].ref.number
        engine.lose(max(0 if final is None else final.block_number, number - back))

    # --- derivation ------------------------------------------------------------------------------------------------

    @rule(user=st.booleans(), concluding=st.booleans(), count=st.integers(0, 8))
    def derive_and_work(self, user: bool, concluding: bool, count: int) -> None:
        self.derive(user, concluding)
        self.work(count, reads_first=False)

    @rule(user=st.booleans(), count=st.integers(1, 12), concluding=st.booleans(), work=st.integers(0, 40))
    def derive_run(self, user: bool, count: int, concluding: bool, work: int) -> None:
        """A span: its first block, and the others derived ahead."""
        self.derive(user, concluding=False)
        self.watched("derive", lambda: self.harness.derive_ahead(count, self.chain.user, concluding=concluding))
        self.work(work, reads_first=False)

    def derive(self, user: bool, concluding: bool) -> None:
        self.watched("derive", lambda: self.harness.derive(*([self.chain.user] if user else []), concluding=concluding))

    @precondition(lambda self: self.harness.start is not None)
    @rule(reset=st.booleans())
    def derivation_starts_over(self, reset: bool) -> None:
        """In a new life, or because it cannot go on."""
        if reset and self.harness.start is not None:
            message = StartRequest(self.harness.start.reset, "L1 was reorganized")
            self.watched("reset", lambda: self.harness.request(message, self.harness.derivation))
        else:
            self.harness.restart_derivation()
            self.watched("derive", self.harness.derive)

    # --- others ----------------------------------------------------------------------------------------------------

    @rule(ahead=st.integers(1, 3), user=st.booleans())
    def gossip(self, ahead: int, user: bool) -> None:
        heads = self.harness.core.heads
        at = self.chain.genesis if heads is None else heads.unsafe
        blocks = []
        if self.chain.l1_ref(at.l1_origin.number).id != at.l1_origin:
            return
        for _ in range(ahead):
            origin = min(self.harness.l1_head, at.l1_origin.number + (1 if at.sequence_number else 0))
            attributes = self.chain.attributes(at, origin, [self.chain.user] if user else [])
            blocks.append(self.chain.seal(at, attributes))
            at = self.chain.ref(blocks[-1])
        self.watched("gossip", lambda: self.harness.gossip(blocks[-1]))

    @precondition(lambda self: self.harness.el_sync.in_progress)
    @rule(ahead=st.integers(0, 3))
    def tip_moves(self, ahead: int) -> None:
        """The block of another node that is this far ahead, or the last one again; this engine lacks it."""
        if self.chain.l1_ref(self.tip.l1_origin.number).id != self.tip.l1_origin:
            self.tip = self.chain.genesis
        for _ in range(max(ahead, 0 if self.tip.number else 1)):
            origin = min(self.harness.l1_head, self.tip.l1_origin.number + (1 if self.tip.sequence_number else 0))
            users = [self.chain.user] if ahead % 2 else []
            self.tip = self.chain.ref(self.chain.seal(self.tip, self.chain.attributes(self.tip, origin, users)))
            self.harness.engine.lost.add(self.tip.hash)
        self.watched("gossip", lambda: self.harness.gossip(self.chain.payloads[self.tip.hash]))

    @rule(count=st.integers(0, 12), fault=st.sampled_from(("", *FAULTS)), concluding=st.booleans())
    def engine_fetches(self, count: int, fault: str, concluding: bool) -> None:
        """The engine gets all blocks from other engines, and perhaps has a fault when it is to follow the last one."""
        self.harness.engine.fetch()
        if fault and self.harness.el_sync.in_progress:
            self.harness.wait(RESEND_SECONDS)
            self.fail_at((CallPurpose.EL_SYNC, ForkchoiceUpdate), fault, concluding)
        self.work(count, reads_first=False)

    @rule(blocks=st.integers(0, 2), behind=st.integers(0, 20))
    def l1_moves(self, blocks: int, behind: int) -> None:
        head = self.harness.l1_head + blocks
        self.finalized_l1 = max(self.finalized_l1, head - behind)
        self.watched("l1", lambda: self.harness.move_l1(head, self.finalized_l1))
        self.watched("l1", self.harness.report_idle)

    @rule(depth=st.integers(1, 3))
    def l1_reorganizes(self, depth: int) -> None:
        """Never below its finalized block."""
        self.branch += 1
        self.chain.reorg(f"branch {self.branch}", max(self.finalized_l1 + 1, self.harness.l1_head - depth))
        self.watched("l1", lambda: self.harness.move_l1(self.harness.l1_head, self.finalized_l1))

    def rpc_request(self) -> int:
        """Return the number of another request of the rpc process."""
        self.requests += 1
        self.rpc_requests.add(self.requests)
        return self.requests

    @rule(what=st.sampled_from(["start", "stop", "reset", "override"]))
    def admin(self, what: str) -> None:
        number = self.rpc_request()
        heads = self.harness.core.heads
        head = bytes(32) if heads is None else heads.unsafe.hash
        messages: dict[str, AdminRequest] = {
            "start": control.StartSequencerRequest(number, head),
            "stop": control.StopSequencerRequest(number),
            "reset": control.ResetDerivationRequest(number),
            "override": control.OverrideLeaderRequest(number),
        }
        self.conducted = self.conducted and what != "override"
        self.watched("admin", lambda: self.harness.request(messages[what]))

    @rule(what=st.sampled_from(["output", "payload", "blocks"]))
    def read(self, what: str) -> None:
        if what == "output":
            self.harness.request(control.OutputRequest(self.rpc_request(), 0), RPC)
        elif what == "payload":
            self.requests += 1
            self.payload_requests.add(self.requests)
            self.harness.request(PayloadRequest(self.requests, 0), P2P)
        else:
            self.requests += 1
            self.harness.request(L2BlocksRequest(1, 0, self.requests % 5), self.harness.derivation)

    # --- the way on ------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        """From any state: when everything works again, a derived block becomes safe, the sequencer builds one if it
        runs, every request is answered, and no failure is left."""
        if not hasattr(self, "harness"):
            return
        harness = self.harness
        for _ in range(10):  # the chain of other nodes grows past the engine's
            if harness.el_sync.in_progress and harness.el_sync.target is None:
                self.tip_moves(1)
        harness.engine.fetch()
        goal: int | None = None
        built: int | None = None
        for _ in range(600):
            self.judge(True)
            heads = harness.core.heads
            if heads is not None and not harness.open and harness.start is not None:
                goal = heads.safe.number + 1 if goal is None else goal
                built = heads.unsafe.number + 1 if built is None else built
                sequenced = heads.unsafe.number >= built or not harness.status.sequencer_active
                safe = heads.safe.number >= goal and harness.engine.safe == heads.safe.hash
                if safe and sequenced and not self.unanswered() and not harness.failing:
                    type(self).recorded += bool(harness.record.entries)
                    break
            if goal is None or heads is None or heads.safe.number < goal:
                harness.derive()
            harness.step()
            if harness.open:
                harness.answer(harness.open[0])
            else:
                harness.sleep()
                if harness.now.unix > self.chain.l1(harness.l1_head).header.timestamp:
                    harness.move_l1(harness.l1_head + 1)
        else:
            left = f"requests {self.unanswered()}, failures {harness.failing}"
            raise AssertionError("\n".join((f"no way on: {left}", *harness.core.log.lines()[-60:])))

    def unanswered(self) -> set[int]:
        """Return the requests of rpc and p2p that have no response."""
        payloads = {response.id for response in self.harness.sent(PayloadResponse)}
        return self.rpc_requests.difference(response.id for response in self.harness.responses) | (
            self.payload_requests - payloads
        )


class RecordingWalk(Walk):
    """With a safe head database."""

    records = True


@pytest.mark.parametrize(("walk", "examples"), [(Walk, 20), (RecordingWalk, 10)])
def test_any_order_of_events_keeps_the_rules_and_leaves_a_way_on(walk: type[Walk], examples: int) -> None:
    limits = settings(max_examples=examples, stateful_step_count=40, deadline=None, report_multiple_bugs=False)
    run_state_machine_as_test(walk, settings=limits)
    assert (walk.recorded > 0) == walk.records
