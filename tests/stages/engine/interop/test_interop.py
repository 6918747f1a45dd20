"""Events for a supervisor: which are sent, and how often [IOP21, IOP22]."""

from rollup_node.stages.engine.interop.interop import MAX_EVENTS, Interop, OrdinarySearch, block_ref
from rollup_node.stages.messages.interop import DerivedPair, InteropEvent, Replacement
from tests.support.chains.chain_fixture import ALL_FORKS, ChainFixture, chain_with

FORKS = dict.fromkeys((*ALL_FORKS, "karst", "lagoon"), 0)


def managed(chain: ChainFixture, **forks: int) -> Interop:
    return Interop(chain_with(FORKS | forks).rollup, True, first=70)


def events(interop: Interop) -> list[InteropEvent]:
    return [event for _, event in interop.events]


def test_numbers_go_on_after_those_of_earlier_lives(chain: ChainFixture) -> None:
    interop = managed(chain)
    interop.reset("first", 0.0)
    interop.on_unsafe(chain.genesis, 0.0)
    assert list(interop.events) == [
        (71, InteropEvent(reset="first")),
        (72, InteropEvent(unsafe_block=block_ref(chain.genesis))),
    ]


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


def test_blocks_of_before_interop_are_no_events(chain: ChainFixture) -> None:
    refs = chain.build(2)
    interop = managed(chain, lagoon=refs[2].timestamp)
    for ref in refs:
        interop.on_unsafe(ref, 0.0)
        interop.on_local_safe(ref, chain.l1_ref(101), 0.0)
    interop.on_derivation(chain.l1_ref(101), True, refs[1], 0.0)
    found = events(interop)
    assert [event.unsafe_block for event in found if event.unsafe_block] == [block_ref(refs[2])]
    assert sum(event.derivation_update is not None for event in found) == 1
    assert found[-1].exhaust_l1 is not None, "exhaustion is told in any case"


def test_the_oldest_events_are_dropped_and_without_a_supervisor_there_are_none(chain: ChainFixture) -> None:
    interop, off = managed(chain), Interop(chain_with(FORKS).rollup, False)
    for number in range(MAX_EVENTS + 5):
        for each in (interop, off):
            each.reset("again", float(number))
            each.replaced(chain.genesis, bytes(32), float(number))
    assert len(interop.events) == MAX_EVENTS and off.events == type(off.events)()
    assert interop.events[-1][1] == InteropEvent(replace_block=Replacement(block_ref(chain.genesis), bytes(32)))


def test_a_reset_waits_for_the_supervisor(chain: ChainFixture) -> None:
    interop = managed(chain)
    assert not interop.may_start and interop.start_heads is None
    interop.start = OrdinarySearch()
    interop.provided_l1 = chain.l1_ref(101)
    assert interop.may_start and interop.start_heads is None and interop.repeat_at is None
    interop.reset("again", 0.0)
    assert not interop.may_start and interop.provided_l1 is None
    off = Interop(chain.rollup, False)
    off.on_derivation(chain.l1_ref(101), True, chain.genesis, 0.0)
    assert off.may_start and off.repeat_at is None
