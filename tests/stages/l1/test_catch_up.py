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
    assert catch_up.unproven is not None and catch_up.doubt is None
    for number in range(28, 41):
        assert catch_up.sent(HONEST.ref(number), False)
    assert catch_up.sent(HONEST.ref(41), True) and catch_up.unproven is None


def test_a_reset_to_a_forged_block_leaves_a_doubt() -> None:
    """What was derived by the blocks before it may be forged, too: until those are sent again."""
    catch_up = caught_up(FORGED, 5, 45)
    assert not catch_up.sent(HONEST.ref(40), False)
    assert catch_up.doubt is not None and "blocks 5 to 39" in catch_up.doubt
    assert not catch_up.sent(HONEST.ref(41), True)
    assert catch_up.unproven is not None
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


def test_a_restart_goes_on_where_the_process_before_was() -> None:
    """Its blocks are sent again from lower on, until they meet the last that is recorded."""
    before = Unproven(5, 20, HONEST.hash(20))
    catch_up = CatchUp(before)
    for number in range(12, 25):
        assert catch_up.sent(HONEST.ref(number), False)
    assert catch_up.unproven == Unproven(5, 24, HONEST.hash(24))
    assert catch_up.sent(HONEST.ref(25), True) and catch_up.unproven is None


def test_a_restart_with_another_chain_leaves_a_doubt() -> None:
    catch_up = CatchUp(Unproven(5, 40, FORGED.hash(40)))
    assert catch_up.sent(HONEST.ref(36), False) and catch_up.sent(HONEST.ref(39), False)
    assert not catch_up.sent(HONEST.ref(40), False)
    assert catch_up.doubt is not None


def test_a_start_below_the_first_unproven_block_begins_anew() -> None:
    catch_up = caught_up(FORGED, 20, 40)
    assert catch_up.sent(HONEST.ref(18), False)
    assert catch_up.unproven == Unproven(18, 18, HONEST.hash(18))
    assert catch_up.sent(HONEST.ref(18), True) and catch_up.unproven is None
