"""What logs are read before the first round [VR10]."""

import pytest

from rollup_node.stages.interop.backfill import NONE, LogRange, backfill
from rollup_node.stages.interop.rounds import StoreState, Verified
from rollup_node.stages.protocol.types import BlockId
from tests.support.interop.values import dependency_set, member

CONFIG = dependency_set(member(1), member(2, block_time=2), activation=1010)
TIP = BlockId(150, b"\x01" * 32)
L1 = BlockId(1, b"\x02" * 32)
EMPTY = StoreState({})


@pytest.mark.parametrize(
    ("safe_time", "depth", "wanted"),
    [
        (1009, 100, {}),  # interop begins after it
        (1010, 100, {1: LogRange(10, 10, NONE), 2: LogRange(5, 5, NONE)}),
        (1100, 10_000, {1: LogRange(10, 100, NONE), 2: LogRange(5, 50, NONE)}),
        (1101, 50, {1: LogRange(51, 101, NONE), 2: LogRange(25, 50, NONE)}),
        (1101, 0, {1: LogRange(101, 101, NONE), 2: LogRange(50, 50, NONE)}),
    ],
)
def test_ranges_of_an_empty_database(safe_time: int, depth: int, wanted: dict[int, LogRange]) -> None:
    assert backfill(CONFIG, EMPTY, safe_time, depth, {}) == wanted


def test_a_chain_that_begins_later_is_read_from_its_genesis() -> None:
    config = dependency_set(member(1), member(2, genesis_time=1050, number=7), activation=1010)
    assert backfill(config, EMPTY, 1060, 1000, {})[2] == LogRange(7, 17, NONE)
    assert backfill(config, EMPTY, 1040, 1000, {})[2] == LogRange(7, 6, NONE), "nothing yet"


@pytest.mark.parametrize(
    ("canonical", "safe_time", "depth", "wanted"),
    [
        (TIP.hash, 1200, 100, LogRange(151, 200, 150)),  # goes on
        (TIP.hash, 1140, 100, LogRange(141, 140, 140)),  # what is above the end goes
        (TIP.hash, 1200, 49, LogRange(151, 200, 150)),
        (TIP.hash, 1200, 48, LogRange(152, 200, NONE)),  # there would be a gap
        (b"\x09" * 32, 1200, 100, LogRange(100, 200, NONE)),  # the chain has another block
        (None, 1200, 100, LogRange(100, 200, NONE)),
    ],
)
def test_it_goes_on_from_what_is_stored(canonical: bytes | None, safe_time: int, depth: int, wanted: LogRange) -> None:
    result = backfill(CONFIG, StoreState({1: TIP}), safe_time, depth, {1: canonical})
    assert result[1] == wanted


def test_after_the_first_round_only_new_chains_are_read() -> None:
    """[VR10]: up to the last round, whatever the safe heads are."""
    state = StoreState({1: TIP}, Verified(1150, L1, 1100))
    assert backfill(CONFIG, state, 5000, 100, {1: None}) == {2: LogRange(25, 75, NONE)}
