"""Durations as texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.node.options.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12s", 12.0),
        ("6m24s", 384.0),
        ("1h0m0s", 3600.0),
        ("500ms", 0.5),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("2.s", 2.0),
        ("0", 0.0),
        ("0s", 0.0),
        ("-1s", -1.0),
        ("+3m", 180.0),
        ("1h2m3s4ms5us6ns", 3723.004005006),
        ("10µs", 1e-5),
        ("1s1h", 3601.0),
    ],
)
def test_go_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


BAD = ["", "12", "s", "1 s", "1d", "--1s", ".s", "1s ", "3e2s", "1h-2m", "9" * 99 + "h", "٣s"]


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (384, "6m24s"), (3600, "1h0m0s"), (0.5, "500ms"), (0.05, "50ms"), (-1.5, "-1.5s"), (1e-9, "1ns")],
)
def test_durations_are_written_as_operators_write_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(-(10**15), 10**15))
def test_every_duration_survives_the_text(microseconds: int) -> None:
    seconds = microseconds / 1e6
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, abs=1e-6)


@given(st.text(max_size=20))
def test_any_text_reads_or_is_refused(text: str) -> None:
    try:
        parse_duration(text)
    except ValueError:
        return
    assert text.strip("+-0123456789.nsuµμmh") == ""
