"""The order in which forks may activate [CFG24, CFG25]."""

import pytest

from rollup_node.stages.protocol.forks.order import fork_order_error
from rollup_node.stages.protocol.forks.table import FORK_NAMES

GENESIS = 1_000
ALL_AT_GENESIS = {name: 0 for name in FORK_NAMES[1:]}


def test_all_forks_at_genesis_or_none() -> None:
    assert fork_order_error(ALL_AT_GENESIS, GENESIS) is None
    assert fork_order_error({}, GENESIS) is None


@pytest.mark.parametrize("index", range(2, len(FORK_NAMES)))
def test_a_missing_prior_fork_is_named(index: int) -> None:
    times = {name: 7 for name in FORK_NAMES[1 : index + 1]}
    del times[FORK_NAMES[index - 1]]
    expected = f"fork {FORK_NAMES[index]} set (to 7), but prior fork {FORK_NAMES[index - 1]} missing"
    assert fork_order_error(times, GENESIS) == expected


@pytest.mark.parametrize("index", range(2, len(FORK_NAMES)))
def test_a_later_prior_fork_is_named(index: int) -> None:
    times = {name: 7 for name in FORK_NAMES[1:]} | {FORK_NAMES[index - 1]: 8}
    if index > 2:
        times |= {name: 7 for name in FORK_NAMES[1 : index - 1]}
    expected = f"fork {FORK_NAMES[index]} set to 7, but prior fork {FORK_NAMES[index - 1]} has higher offset 8"
    assert fork_order_error(times, GENESIS) == expected


@pytest.mark.parametrize("index", range(2, len(FORK_NAMES)))
def test_sharing_a_time_after_genesis_is_refused_from_jovian_on(index: int) -> None:
    times = {name: 0 for name in FORK_NAMES[1:]}
    for name in FORK_NAMES[index - 1 : index + 1]:
        times[name] = GENESIS + 1
    for later in FORK_NAMES[index + 1 :]:
        del times[later]
    problem = fork_order_error(times, GENESIS)
    if index < FORK_NAMES.index("jovian"):
        assert problem is None
    else:
        assert problem is not None and "at the same time after genesis" in problem
        assert fork_order_error(times, GENESIS + 1) is None
