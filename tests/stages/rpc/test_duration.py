"""Lengths of time in words."""

import pytest

from rollup_node.stages.rpc.duration import age, duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.9, "0s"), (59, "59s"), (60, "1m0s"), (415, "6m55s"), (7980, "2h13m"), (3600 * 76, "3d4h")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.44, "0.4 s"), (9.9, "9.9 s"), (10, "10s"), (415, "6m55s")])
def test_ages(seconds: float, text: str) -> None:
    assert age(seconds) == text
