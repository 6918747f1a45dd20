"""Blocks that were used unproven, and whether their link to a proven block closes [LCP16, LCP17]."""

from rollup_node.stages.l1.catch_up import CatchUp, Unproven
from tests.support.chains.fake_l1_chain import FakeL1Chain

HONEST = FakeL1Chain(60)
FORGED = FakeL1Chain(60)
FORGED.reorg(30, 40)


def caught_up(chain: FakeL1Chain, first: int, last: int) -> CatchUp:
    """Return what has taken the blocks of a chain unproven."""
    result = CatchUp()
    for number in range(first, last + 1):
        assert result.sent(chain.ref(number), False)
    return result


def test_proven_blocks_alone_leave_nothing_to_prove() -> None:
    catch_up = CatchUp()
    assert catch_up.sent(HONEST.ref(5), True) and catch_up.sent(HONEST.ref(6), True)
    assert catch_up.unproven is None


def test_a_link_closes_at_the_first_proven_block() -> None:
    catch_up = caught_up(HONEST, 5, 20)
    assert catch_up.unproven == Unproven(5, 20, HONEST.hash(20))
    assert catch_up.sent(HONEST.ref(21), True)
    assert catch_up.unproven is None


def test_a_link_that_cannot_close_stays_open_until_the_right_blocks_were_sent() -> None:
    """The blocks 30 to 40 are forged; after the reset those from 28 on are sent again, of the honest chain."""
    catch_up = caught_up(FORGED, 5, 40)
    assert not catch_up.sent(HONEST.ref(41), True)
    assert catch_up.sent(HONEST.ref(42), True), "derivation does not take it"
    assert catch_up.unproven is not None and catch_up.doubt is None
    catch_up.requested(28, None)
    for number in range(28, 41):
        assert catch_up.sent(HONEST.ref(number), False)
    assert catch_up.sent(HONEST.ref(41), True) and catch_up.unproven is None


def test_a_reset_to_a_forged_block_leaves_a_doubt() -> None:
    """What was derived by the blocks before it may be forged, too: until those are sent again."""
    catch_up = caught_up(FORGED, 5, 45)
    assert not catch_up.sent(HONEST.ref(40), False)
    assert catch_up.doubt is not None and "blocks 5 to 39" in catch_up.doubt
    assert catch_up.sent(HONEST.ref(41), True)
    assert catch_up.unproven is not None, "it says nothing"
    catch_up.requested(5, None)
    for number in range(5, 41):
        assert catch_up.sent(HONEST.ref(number), False)
    assert catch_up.doubt is None
    assert catch_up.sent(HONEST.ref(41), True) and catch_up.unproven is None


def test_blocks_that_are_sent_again_change_nothing() -> None:
    catch_up = caught_up(HONEST, 5, 20)
    assert catch_up.sent(HONEST.ref(12), False) and catch_up.sent(HONEST.ref(13), False)
    assert catch_up.unproven == Unproven(5, 20, HONEST.hash(20))


def test_a_reorg_while_catching_up_goes_on_from_the_fork() -> None:
    catch_up = caught_up(FORGED, 5, 40)
    assert catch_up.sent(HONEST.ref(30), False)
    assert catch_up.unproven == Unproven(5, 30, HONEST.hash(30))
    assert not catch_up.sent(FORGED.ref(31), False)


def restarted(chain: FakeL1Chain, first: int, last: int, *marks: int) -> CatchUp:
    """Return what knows of a former process that has recorded these blocks."""
    return CatchUp(Unproven(first, last, chain.hash(last), tuple((number, chain.hash(number)) for number in marks)))


def test_a_restart_goes_on_where_the_process_before_was() -> None:
    """Once derivation has accepted the next block: it may have been reset, and have other blocks than are recorded."""
    catch_up = restarted(HONEST, 5, 20)
    assert catch_up.sent(HONEST.ref(21), True) and catch_up.unproven == Unproven(5, 20, HONEST.hash(20))
    assert catch_up.awaits(22) and not catch_up.awaits(21)
    catch_up.requested(22, None)
    assert catch_up.awaits(22), "it is received, and not taken yet"
    catch_up.requested(22, HONEST.hash(21))
    assert not catch_up.awaits(22) and catch_up.unproven == Unproven(5, 21, HONEST.hash(21))
    assert catch_up.sent(HONEST.ref(22), True) and catch_up.unproven is None


def test_a_restart_whose_blocks_derivation_refuses_has_proven_nothing() -> None:
    """It has replaced the recorded blocks by forged ones, and goes back when it is sent an honest one."""
    catch_up = restarted(HONEST, 5, 20, 8)
    assert catch_up.sent(HONEST.ref(21), True)
    catch_up.requested(14, None)
    assert catch_up.unproven is not None and not catch_up.awaits(22)
    assert catch_up.gap_below(HONEST.ref(14)) == range(9, 14)
    assert catch_up.fill([HONEST.ref(number) for number in range(9, 14)])
    assert catch_up.sent(HONEST.ref(14), True) and catch_up.awaits(15)
    catch_up.requested(15, HONEST.hash(14))
    assert catch_up.unproven == Unproven(5, 14, HONEST.hash(14))
    assert catch_up.sent(HONEST.ref(15), True) and catch_up.unproven is None


def test_blocks_that_are_sent_again_meet_the_recorded_ones() -> None:
    """From below the lowest of them on."""
    catch_up = restarted(HONEST, 5, 20, 16)
    for number in range(12, 17):
        assert not catch_up.gap_below(HONEST.ref(number)) and catch_up.sent(HONEST.ref(number), False)
    assert catch_up.awaits(17)
    catch_up.requested(17, HONEST.hash(16))
    for number in range(17, 25):
        assert catch_up.sent(HONEST.ref(number), False)
    assert catch_up.unproven == Unproven(5, 24, HONEST.hash(24))
    assert catch_up.sent(HONEST.ref(25), True) and catch_up.unproven is None


def test_a_gap_is_filled_by_blocks_that_link_alone() -> None:
    """[LCP17] From the block that is sent next down to the highest recorded one, in batches."""
    chain = FakeL1Chain(300)
    catch_up = restarted(chain, 5, 20)
    forged = FakeL1Chain(300)
    forged.reorg(200, 200)
    ref = chain.ref(250)
    assert catch_up.gap_below(ref) == range(122, 250)
    assert not catch_up.fill([forged.ref(number) for number in range(122, 250)])
    assert catch_up.fill([chain.ref(number) for number in range(122, 250)])
    assert catch_up.gap_below(ref) == range(21, 122)
    assert catch_up.gap_below(forged.ref(250)) == range(122, 250), "of another block it is another gap"
    assert catch_up.gap_below(ref) == range(122, 250)
    for first, last in ((122, 250), (21, 122)):
        assert catch_up.fill([chain.ref(number) for number in range(first, last)])
    assert not catch_up.gap_below(ref) and catch_up.sent(ref, False)
    catch_up.requested(251, chain.hash(250))
    assert catch_up.unproven == Unproven(5, 250, chain.hash(250))
    assert catch_up.sent(chain.ref(251), True) and catch_up.unproven is None


def test_a_restart_with_another_chain_leaves_a_doubt_until_derivation_is_reset() -> None:
    catch_up = restarted(FORGED, 5, 40, 32)
    assert catch_up.gap_below(HONEST.ref(45)) == range(33, 45)
    while numbers := catch_up.gap_below(HONEST.ref(45)):
        assert catch_up.fill([HONEST.ref(number) for number in numbers])
    assert catch_up.sent(HONEST.ref(45), False)
    assert catch_up.doubt is not None and "blocks 5 to 44 are not on the chain of 45" in catch_up.doubt
    assert not catch_up.gap_below(HONEST.ref(46)) and catch_up.sent(HONEST.ref(46), True)
    assert catch_up.unproven is not None
    catch_up.requested(5, None)
    assert catch_up.sent(HONEST.ref(5), False) and catch_up.doubt is None


def test_what_is_recorded_has_some_of_the_blocks_before_the_last() -> None:
    catch_up = caught_up(HONEST, 5, 50)
    record = catch_up.record()
    assert record is not None and record.marks == ((5, HONEST.hash(5)), (32, HONEST.hash(32)))
    assert CatchUp().record() is None


def test_a_start_below_the_first_unproven_block_begins_anew() -> None:
    catch_up = caught_up(FORGED, 20, 40)
    assert catch_up.sent(HONEST.ref(18), False)
    assert catch_up.unproven == Unproven(18, 18, HONEST.hash(18))
    assert catch_up.sent(HONEST.ref(18), True) and catch_up.unproven is None
