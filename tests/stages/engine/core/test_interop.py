"""Events for a supervisor: which are sent, and how often [IOP21, IOP22]."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import msgspec

from rollup_node.stages.engine.calls import engine_api as api
from rollup_node.stages.engine.calls.actions import ShowProblem
from rollup_node.stages.engine.calls.calls import CallPurpose, Instant
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.engine.core.interop import (
    EXHAUSTED_SECONDS,
    MAX_EARLY,
    MAX_EVENTS,
    Decision,
    ForceStart,
    Interop,
    InteropRow,
    Invalidate,
    Promote,
    ProvideL1,
    block_ref,
)
from rollup_node.stages.engine.process.interop_server import replacement_attributes
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.control import ResetDerivationRequest
from rollup_node.stages.messages.interop import DerivedPair, InteropEvent, Replacement
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import L2BlockRef
from tests.support.chains.chain_fixture import ALL_FORKS, ChainFixture, chain_with
from tests.support.engine.core_harness import CoreHarness

FORKS = dict.fromkeys((*ALL_FORKS, "karst", "lagoon"), 0)


def managed(chain: ChainFixture, **forks: int) -> Interop:
    return Interop(chain_with(FORKS | forks).rollup, True, first=70)


def events(interop: Interop) -> list[InteropEvent]:
    return [event for _, event in interop.events]


def test_the_same_event_is_not_sent_again_at_once(chain: ChainFixture) -> None:
    refs = chain.build(2)
    interop, source = managed(chain), chain.l1_ref(101)
    for at, ref in ((0.0, refs[1]), (0.05, refs[1]), (0.2, refs[1]), (0.21, refs[2])):
        interop.on_local_safe(ref, source, at)
    derived = [event.derivation_update for event in events(interop)]
    assert derived == [DerivedPair(source, block_ref(ref)) for ref in (refs[1], refs[1], refs[2])]
    interop.events.clear()
    for at in (0.0, 0.4, 0.6):
        interop.on_derivation(source, True, refs[1], at)
    pair = DerivedPair(source, block_ref(refs[1]))
    traversal = InteropEvent(derivation_update=pair, derivation_origin_update=source)
    assert events(interop) == [traversal, InteropEvent(exhaust_l1=pair), InteropEvent(exhaust_l1=pair)]


def test_the_oldest_events_are_dropped_and_without_a_supervisor_there_are_none(chain: ChainFixture) -> None:
    interop, off = managed(chain), Interop(chain_with(FORKS).rollup, False)
    for number in range(MAX_EVENTS + 5):
        for item in (interop, off):
            item.reset("again", float(number))
            item.replaced(chain.genesis, bytes(32), float(number))
    off.on_derivation(chain.l1_ref(101), True, chain.genesis, 0.0)
    assert off.may_start and off.repeat_at is None
    assert len(interop.events) == MAX_EVENTS and off.events == type(off.events)()
    assert interop.events[-1][1] == InteropEvent(replace_block=Replacement(block_ref(chain.genesis), bytes(32)))


INITIAL = InteropEvent(reset="cannot continue derivation until Engine has been reset")


def decide(harness: CoreHarness, decision: Decision) -> None:
    """The supervisor decides, and all that follows at once is done."""
    harness.core.decide(decision, harness.now)
    harness.drain()
    harness.run_until_idle()


def take_events(harness: CoreHarness) -> list[InteropEvent]:
    """Return the events since the last call."""
    events = [event for _, event in harness.core.interop.events]
    harness.core.interop.events.clear()
    return events


def waiting(chain: ChainFixture, **config: Any) -> CoreHarness:
    """Return a node that waits for its supervisor."""
    harness = CoreHarness(chain, interop=True, **config)
    harness.run_until_idle()
    harness.move_l1(harness.l1_head)
    harness.run_until_idle()
    return harness


def managed_core(blocks: int = 3, config: Mapping[str, Any] | None = None, **forks: int) -> CoreHarness:
    """Return a node that the supervisor has let find its start, with derived blocks."""
    harness = waiting(interop_chain(**forks), **(config or {}))
    decide(harness, ForceStart(None))
    harness.derive_block()
    for _ in range(blocks):
        harness.derive_block(harness.chain.user)
        harness.pass_time(0.2)
    return harness


def interop_chain(**forks: int) -> ChainFixture:
    return chain_with(FORKS | forks)


def blocks(harness: CoreHarness) -> list[L2BlockRef]:
    """Return the derived blocks, genesis first."""
    chain = harness.chain
    result = harness.engine.canonical()
    return [chain.genesis, *(chain.ref(result[number]) for number in sorted(result) if number)]


def test_derived_blocks_are_safe_across_chains_when_the_supervisor_says_so() -> None:
    harness = managed_core()
    refs, source = blocks(harness), harness.chain.l1_ref(harness.l1_head)
    events = take_events(harness)
    assert [event.unsafe_block for event in events if event.unsafe_block][-3:] == [block_ref(ref) for ref in refs[1:]]
    derived = [event.derivation_update for event in events if event.derivation_update]
    assert derived == [DerivedPair(source, block_ref(ref)) for ref in refs[1:]]
    status = harness.status
    assert (status.local_safe, status.safe, status.cross_unsafe) == (refs[3], refs[0], refs[0])
    assert harness.engine.safe == refs[0].hash
    decide(harness, Promote("unsafe", refs[3]))
    decide(harness, Promote("safe", refs[2], source))
    status = harness.status
    assert (status.local_safe, status.safe, status.cross_unsafe) == (refs[3], refs[2], refs[3])
    assert harness.engine.safe == refs[2].hash
    decide(harness, Promote("finalized", refs[3]))
    assert harness.status.finalized == refs[0], "only what is safe across chains can be final"
    decide(harness, Promote("finalized", refs[1]))
    assert harness.status.finalized == refs[1] and harness.engine.finalized == refs[1].hash
    harness = managed_core()
    decide(harness, Promote("safe", blocks(harness)[2], source))
    assert harness.status.cross_unsafe == blocks(harness)[2], "a safe block is verified too"


def test_before_interop_safe_is_safe() -> None:
    harness = managed_core(lagoon=1_000_000_000)
    refs = blocks(harness)
    status = harness.status
    assert status.safe == status.local_safe == status.cross_unsafe == refs[3]
    assert take_events(harness) == [INITIAL]


def test_a_reset_is_reported_and_the_supervisor_names_the_heads() -> None:
    harness = managed_core()
    refs = blocks(harness)
    take_events(harness)
    harness.request(ResetDerivationRequest(1))
    assert harness.step() == [] and harness.status.unsafe is None
    event = InteropEvent(reset="requested by admin_resetDerivationPipeline")
    assert take_events(harness) == [event]
    harness.wait(10.0)
    assert harness.step() == [] and take_events(harness) == [event], "it is repeated until the supervisor resets"
    heads = Heads(refs[3], refs[2], refs[2], refs[0], refs[1], refs[2])
    decide(harness, ForceStart(heads))
    status = harness.status
    result = (status.unsafe, status.local_safe, status.safe, status.cross_unsafe, status.finalized)
    assert result == (refs[3], refs[2], refs[1], refs[2], refs[0])
    assert (harness.engine.head, harness.engine.safe) == (refs[3].hash, refs[1].hash)
    assert harness.start is not None
    harness.derive_block(harness.chain.user)
    assert harness.start.safe_head == refs[2], "derivation goes on from the local safe head"


def invalidate_last(harness: CoreHarness) -> tuple[Invalidate, list[L2BlockRef]]:
    """Return the supervisor finds the last block invalid."""
    refs = blocks(harness)
    take_events(harness)
    decision = Invalidate(refs[3], refs[2], replacement_attributes(harness.chain.payloads[refs[3].hash]))
    harness.core.decide(decision, harness.now)
    harness.drain()
    return decision, refs


def replacements(harness: CoreHarness) -> list[Replacement]:
    """Return those of which the supervisor hears."""
    return [event.replace_block for event in take_events(harness) if event.replace_block]


def test_another_replacement_does_not_take_the_answer_for_the_first() -> None:
    """The supervisor invalidates an earlier block while each of the calls for the first replacement is open."""
    for calls in range(3):
        harness = managed_core()
        _, refs = invalidate_last(harness)
        for _ in range(calls):
            harness.answer(harness.step()[0])
        (late,) = harness.step()
        attributes = replacement_attributes(harness.chain.payloads[refs[2].hash])
        harness.core.decide(Invalidate(refs[2], refs[1], attributes), harness.now)
        harness.answer(late)
        (call,) = harness.step()
        assert isinstance(call.call, api.ForkchoiceUpdate) and call.call.forkchoice.head == refs[1].hash
        assert call.call.attributes == attributes
        harness.answer(call)
        harness.run_until_idle()
        assert harness.unsafe == 2
        unsafe = harness.heads.unsafe
        assert harness.chain.payloads[unsafe.hash].transactions == attributes.transactions
        assert replacements(harness) == [Replacement(block_ref(unsafe), refs[2].hash)]


def test_a_replacement_that_fails_is_a_wish_for_a_reset() -> None:
    harness = managed_core()
    invalidate_last(harness)
    harness.answer(harness.step()[0], api.Unavailable("away"))
    assert harness.step() == [], "it backs off"
    harness.wait(10.0)
    (call,) = harness.step()
    assert call.purpose is CallPurpose.REPLACEMENT
    harness.answer(call, api.ErrorAnswer(-38003, "bad attributes"))
    (event,) = take_events(harness)
    assert event.reset is not None and event.reset.endswith(": bad attributes") and "cannot be replaced" in event.reset


def test_a_replacement_that_is_another_block_is_a_wish_for_a_reset() -> None:
    """[ATT46]"""
    harness = managed_core()
    invalidate_last(harness)
    harness.answer(harness.step()[0])
    (call,) = harness.step()
    sealed = harness.good_answer(call)
    assert isinstance(call.call, api.GetPayload) and isinstance(sealed, ExecutionPayload)
    harness.answer(call, msgspec.structs.replace(sealed, transactions=sealed.transactions[:1]))
    (event,) = take_events(harness)
    assert event.reset is not None and "cannot be replaced: the engine sealed" in event.reset


def elapse(harness: CoreHarness, seconds: float) -> None:
    """The process sleeps as long as the core lets it, for so many seconds in all."""
    end = harness.now.monotonic + seconds
    while (pause := harness.core.wait_until(harness.now) - harness.now.monotonic) < end - harness.now.monotonic:
        harness.pass_time(pause)
    harness.wait(end - harness.now.monotonic)


def test_exhausted_l1_is_repeated_until_the_next_block_is_provided() -> None:
    """Derivation publishes no other status at the tip, and the supervisor has no next L1 block yet [IOP29]."""
    harness = managed_core()
    refs = blocks(harness)
    harness.report_idle()
    origin = harness.chain.l1_ref(harness.l1_head)
    again = InteropEvent(exhaust_l1=DerivedPair(origin, block_ref(refs[3])))
    assert take_events(harness)[-1] == again
    elapse(harness, EXHAUSTED_SECONDS - 0.1)
    assert take_events(harness) == []
    elapse(harness, 0.2)
    assert take_events(harness) == [again], "by time"
    elapse(harness, 1.0)
    harness.move_l1(origin.number + 1)
    harness.move_l1(origin.number + 1)
    assert take_events(harness) == [again], "by each L1 head"
    decide(harness, ProvideL1(origin))
    elapse(harness, EXHAUSTED_SECONDS + 0.1)
    assert take_events(harness) == [again], "another L1 block is no answer"
    decide(harness, ProvideL1(harness.chain.l1_ref(origin.number + 1)))
    elapse(harness, 12.0)
    harness.move_l1(origin.number + 2)
    assert take_events(harness) == []
    harness.report_idle()
    elapse(harness, EXHAUSTED_SECONDS + 0.1)
    sources = [event.exhaust_l1.source for event in take_events(harness) if event.exhaust_l1]
    assert sources == [harness.chain.l1_ref(origin.number + 2)] * 2


def test_exhausted_l1_is_not_repeated_over_a_start() -> None:
    for restart in (CoreHarness.restart_derivation, lambda node: decide(node, ForceStart(None))):
        harness = managed_core()
        harness.report_idle()
        take_events(harness)
        restart(harness)
        harness.derive_block()
        elapse(harness, 12.0)
        assert not any(event.exhaust_l1 for event in take_events(harness))


def test_a_requested_reset_is_sent_while_the_supervisor_is_waited_for() -> None:
    harness = waiting(interop_chain())
    problems = [action for action in harness.actions if isinstance(action, ShowProblem)]
    text = "waiting for the interop supervisor to call interop_reset on the listener of interop.rpc.addr"
    assert problems == [ShowProblem("start", Problem(None, "", text))]
    take_events(harness)
    harness.wait(1.0)
    harness.request(ResetDerivationRequest(1))
    assert take_events(harness) == [InteropEvent(reset="requested by admin_resetDerivationPipeline")]
    decide(harness, ForceStart(None))
    assert [response.id for response in harness.responses] == [1]
    assert harness.done(ShowProblem)[-1] == ShowProblem("start", None)
    harness.request(ResetDerivationRequest(2))
    reason = "requested by admin_resetDerivationPipeline"
    assert harness.done(ShowProblem)[-1] == ShowProblem("start", Problem(None, text, reason))


def test_promotions_that_come_before_the_heads_are_bounded() -> None:
    """A supervisor sends them without end while a start is searched for; those of the last start are applied."""
    chain = interop_chain()
    refs, promoted = chain.build(3), list[L2BlockRef]()
    state: Any = SimpleNamespace(confirmed_heads=None, reset_count=1, publish=lambda now: None)
    state.controller = SimpleNamespace(promote_cross=lambda unsafe, safe: promoted.append(safe))
    calls = InteropRow(state)
    for _ in range(2 * MAX_EARLY):
        calls.decide(Promote("unsafe", refs[1]), Instant(0.0, 0.0), 1)
    state.confirmed_heads = object()
    calls.promote_due(Instant(0.0, 0.0))
    assert promoted == [refs[1]] * MAX_EARLY
