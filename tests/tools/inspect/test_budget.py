"""The requests and bytes that a node takes from L1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.tools.inspect.budget import (
    BEACON,
    BLOB_BYTES,
    L1,
    POLLS_PER_BLOCK,
    Polling,
    SampledBlock,
    day_at_the_tip,
    hours_at,
    spread,
    sync,
)

SAMPLE = [
    SampledBlock(1, 1000, 0, 0),
    SampledBlock(2, 3000, 8000, 6),
    SampledBlock(3, 2000, 0, 0),
    SampledBlock(4, 2000, 0, 0),
]


def test_a_sync() -> None:
    budget = sync(SAMPLE, 1000)
    requests = {row.method: (row.requests, row.bytes) for row in budget.rows}
    assert requests == {
        "eth_getBlockByNumber": (1000, 2_000_000),
        "eth_getBlockReceipts": (250, 2_000_000),
        "blobs": (250, 1500 * BLOB_BYTES),
        "block": (250, 0),
    }
    assert budget.total(L1)[2:] == (1250, 4_000_000) and budget.total(BEACON).requests == 500
    assert hours_at(budget, 10.0) == pytest.approx(125 / 3600)


def test_a_day_at_the_tip() -> None:
    budget = day_at_the_tip(SAMPLE, 12.0, Polling(384.0, 600.0))
    requests = {row.method: row.requests for row in budget.rows}
    assert budget.blocks == 7200 and requests["eth_getBlockByNumber"] == 7200 * POLLS_PER_BLOCK
    assert requests["eth_getBlockByNumber (labels)"] == 675 and requests["eth_getProof"] == 144
    quiet = day_at_the_tip(SAMPLE, 12.0, Polling(0.0, 0.0))
    assert {row.method for row in budget.rows} - {row.method for row in quiet.rows} == {
        "eth_getBlockByNumber (labels)",
        "eth_chainId",
        "eth_getProof",
    }


@given(st.integers(0, 10**8), st.integers(0, 10**6), st.integers(1, 50))
def test_numbers_are_spread_over_a_range(first: int, more: int, count: int) -> None:
    numbers = spread(first, first + more, count)
    assert len(numbers) == min(count, more + 1) and numbers == sorted(set(numbers))
    assert first <= numbers[0] and numbers[-1] == first + more
