"""The trend of a figure over a long run."""

from statistics import median

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.tools.devnet.soak.trend import LEAST_VALUES, MAX_VALUES, Quarters, Trend


def trend_of(values: list[float]) -> Trend:
    trend = Trend()
    for value in values:
        trend.add(value)
    return trend


@given(st.lists(st.floats(0, 1e6), max_size=3000))
def test_memory_is_bounded_and_the_values_are_evenly_spread(values: list[float]) -> None:
    kept = list(trend_of(values).values)
    assert len(kept) <= MAX_VALUES
    every = 1
    while len(values[::every]) > MAX_VALUES:
        every *= 2
    assert kept == values[::every]


@given(st.integers(20, 1000), st.integers(0, 100))
def test_the_quarters_of_a_line(count: int, slope: int) -> None:
    found = trend_of([slope * index for index in range(count)]).quarters()
    assert found is not None
    # The first quarter after the warm-up is centred at 0.1 + 0.9 / 8, the last at 1 - 0.9 / 8 of the values.
    assert abs(found.first - 0.2125 * slope * count) <= 0.1 * slope * count
    assert abs(found.last - 0.8875 * slope * count) <= 0.1 * slope * count


def test_too_few_values_and_the_warm_up() -> None:
    assert trend_of([1.0] * (LEAST_VALUES - 1)).quarters() is None
    found = trend_of([1000.0] * 10 + [5.0] * 90).quarters()
    assert found == Quarters(5.0, 5.0) and median([5.0]) == found.first


def test_growth() -> None:
    assert not Quarters(100, 134).grows(0.15, 20)
    assert Quarters(100, 136).grows(0.15, 20)
