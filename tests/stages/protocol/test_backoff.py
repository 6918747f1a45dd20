"""The pauses after failures."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol.backoff import backoff


def test_pauses_double_up_to_the_most() -> None:
    assert [backoff(failures, 0.5, 5.0) for failures in range(7)] == [0.5, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


@given(st.integers(0, 10**400))
def test_any_number_of_failures_has_a_pause(failures: int) -> None:
    assert 0.5 <= backoff(failures, 0.5, 8.0) <= backoff(failures + 1, 0.5, 8.0) <= 8.0
