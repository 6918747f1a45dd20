"""Durations as operators write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.node.options.durations import parse_duration


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
def test_other_texts_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@given(st.booleans(), *[st.integers(0, 10**6)] * 4)
def test_units_add_up(negative: bool, hours: int, seconds: int, milliseconds: int, microseconds: int) -> None:
    text = f"{'-' if negative else ''}{hours}h{seconds}s{milliseconds}ms{microseconds}us"
    total = hours * 3600 + seconds + milliseconds / 1e3 + microseconds / 1e6
    assert parse_duration(text) == pytest.approx(-total if negative else total, abs=1e-6)


@given(st.text(max_size=20))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    try:
        parse_duration(text)
    except ValueError:
        return
    assert text.strip("+-0123456789.nsuµμmh") == ""
