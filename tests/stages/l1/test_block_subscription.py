"""Demand: what a client is sent, once, in spite of lost and repeated messages."""

from rollup_node.stages.l1.block_subscription import Demand
from rollup_node.stages.l1.window import Range
from rollup_node.stages.messages.l1 import L1BlockUnavailable
from rollup_node.stages.protocol.types import L1Block, L1Header


def block(number: int, branch: int = 0) -> L1Block:
    own = branch.to_bytes(8, "big") + number.to_bytes(24, "big")
    return L1Block(L1Header(own, number, bytes(32), 12 * number, bytes(32), 7, None, None), (), (), ())


def send(demand: Demand, held: dict[int, L1Block], head: int | None, now: float = 0.0) -> list[int]:
    """Sends all that is due; the numbers."""
    blocks = list(demand.to_send(held.get, head))
    for each in blocks:
        demand.sent(each, now)
    return [each.header.number for each in blocks]


def nothing_failed(number: int) -> tuple[str | None] | None:
    return None


HELD = {number: block(number) for number in range(100)}


def test_blocks_are_sent_once() -> None:
    demand = Demand(0, 64, again=0.5)
    demand.ask(10, 4, 0.0)
    assert send(demand, HELD, 50) == [10, 11, 12, 13]
    assert send(demand, HELD, 50) == []
    demand.ask(12, 4, 0.1)
    assert send(demand, HELD, 50) == [14, 15]


def test_a_later_block_does_not_wait_for_an_earlier_one() -> None:
    demand = Demand(0, 64, again=0.5)
    demand.ask(10, 4, 0.0)
    assert send(demand, {12: block(12)}, 50) == [12]
    assert demand.wanted(50) == Range(10, 50)


def test_asking_for_what_was_sent_means_that_it_is_lost() -> None:
    demand = Demand(0, 64, again=0.5)
    demand.ask(10, 3, 0.0)
    send(demand, HELD, 50)
    demand.ask(10, 4, 0.4)
    assert send(demand, HELD, 50, 0.4) == [13]
    demand.ask(11, 3, 0.6)
    assert send(demand, HELD, 50, 0.6) == [11, 12]
    demand.ask(13, 1, 0.8)
    assert send(demand, HELD, 50, 0.8) == []


def test_going_back_begins_anew() -> None:
    demand = Demand(0, 64, again=0.5)
    demand.ask(10, 3, 0.0)
    send(demand, HELD, 50)
    demand.ask(8, 4, 0.0)
    assert send(demand, HELD, 50) == [8, 9, 10, 11]


def test_another_block_of_the_same_number_is_sent_as_well() -> None:
    demand = Demand(0, 64, again=0.5)
    demand.ask(10, 3, 0.0)
    send(demand, HELD, 50)
    assert send(demand, {**HELD, 11: block(11, branch=1)}, 50) == [11]


def test_confirmations_hide_the_newest_blocks() -> None:
    demand = Demand(4, 64, again=0.5)
    demand.ask(45, 10, 0.0)
    assert demand.wanted(50) == Range(45, 46)
    assert send(demand, HELD, 50) == [45, 46]
    assert demand.missing(50, "unknown", nothing_failed) == L1BlockUnavailable(47, 46, None)
    assert demand.wanted(50) is None
    assert demand.wanted(51) == Range(47, 47)
    assert demand.missing(2, "unknown", nothing_failed) == L1BlockUnavailable(47, 0, None)


def test_blocks_are_fetched_ahead_of_the_ask() -> None:
    demand = Demand(0, 64, again=0.5)
    demand.ask(10, 1, 0.0)
    assert demand.wanted(1000) == Range(10, 73)
    send(demand, HELD, 1000)
    assert demand.wanted(1000) == Range(11, 73)
    modest = Demand(0, 0, again=0.2)
    modest.ask(10, 2, 0.0)
    assert modest.wanted(1000) == Range(10, 11)
    send(modest, HELD, 1000)
    assert modest.wanted(1000) is None


def test_what_is_missing_is_told_with_its_reason() -> None:
    demand = Demand(0, 64, again=0.5)
    assert demand.missing(50, "unknown", nothing_failed) is None
    demand.ask(51, 4, 0.0)
    assert demand.missing(50, "unknown", nothing_failed) == L1BlockUnavailable(51, 50, None)
    assert demand.missing(None, "refused", nothing_failed) == L1BlockUnavailable(51, 0, "refused")
    assert demand.missing(60, "unknown", nothing_failed) is None
    assert demand.missing(60, "unknown", lambda number: ("bad",)) == L1BlockUnavailable(51, 60, "bad")


def test_with_no_head_followed_all_numbers_count_as_visible() -> None:
    demand = Demand(4, 0, again=0.5)
    demand.ask(51, 4, 0.0)
    assert demand.wanted(None) == Range(51, 54)
    assert send(demand, HELD, None) == [51, 52, 53, 54]
    demand.ask(55, 1, 0.0)
    assert demand.missing(None, None, nothing_failed) is None
    assert demand.missing(None, None, lambda number: (None,)) == L1BlockUnavailable(55, 54, None)


def test_an_ask_is_bounded() -> None:
    demand = Demand(0, 0, again=0.5)
    demand.ask(0, 1 << 60, 0.0)
    wanted = demand.wanted(1 << 60)
    assert wanted is not None
    assert wanted.last < 5000
