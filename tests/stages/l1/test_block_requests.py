"""How many blocks a request asks for."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.l1.block_requests import MAX_BLOCKS, SLOW_SECONDS, WANTED_RATE, blocks_per_request, grouped
from rollup_node.stages.l1.prefetch_window import Fetch


@pytest.mark.parametrize(
    ("latency", "concurrency", "max_batch", "expected"),
    [
        (None, 10, 20, 1),
        (0.0, 10, 20, 1),
        (0.02, 10, 20, 1),
        (0.1, 10, 20, 3),
        (0.1, 100, 20, 1),
        (0.1, 1, 20, MAX_BLOCKS),
        (SLOW_SECONDS, 10, 20, MAX_BLOCKS),
        (SLOW_SECONDS, 10, 2, 2),
        (SLOW_SECONDS, 10, 0, 1),
        (SLOW_SECONDS + 0.1, 10, 20, 1),
    ],
)
def test_as_many_blocks_as_the_wanted_rate_takes(
    latency: float | None, concurrency: int, max_batch: int, expected: int
) -> None:
    assert WANTED_RATE == 300
    assert blocks_per_request(latency, concurrency, max_batch) == expected


def sizes(groups: Sequence[Sequence[Fetch]]) -> list[int]:
    return [len(group) for group in groups]


@pytest.mark.parametrize(
    ("fetches", "requests", "expected"),
    [(0, 4, []), (3, 4, [1, 1, 1]), (4, 4, [1] * 4), (5, 4, [1, 2, 2]), (10, 4, [1, 3, 3, 3]), (3, 1, [3])],
)
def test_the_most_urgent_block_goes_alone_where_others_have_a_request(
    fetches: int, requests: int, expected: list[int]
) -> None:
    assert sizes(grouped([Fetch(number, 0) for number in range(fetches)], requests)) == expected


@given(st.integers(0, 100), st.integers(1, 20))
def test_every_fetch_is_in_one_request_and_none_is_too_many(count: int, requests: int) -> None:
    fetches = [Fetch(number, 0) for number in range(count)]
    groups = grouped(fetches, requests)
    assert [fetch for group in groups for fetch in group] == fetches
    assert len(groups) <= requests and all(groups)
