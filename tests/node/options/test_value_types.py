"""Which texts the types of values accept."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.node.options import value_types
from rollup_node.node.options.value_types import parse_duration
from rollup_node.stages.io.log.logger import Level


@pytest.mark.parametrize(
    ("value_type", "text", "value"),
    [
        (value_types.BOOL, "true", True),
        (value_types.BOOL, "F", False),
        (value_types.BOOL, "1", True),
        (value_types.COUNT, "0", 0),
        (value_types.OPTIONAL_COUNT, "7", 7),
        (value_types.OPTIONAL_COUNT, "0", None),
        (value_types.PORT, "65535", 65535),
        (value_types.ANY_INTEGER, "-100", -100),
        (value_types.NUMBER, "2.5", 2.5),
        (value_types.NUMBER, "-100", -100.0),
        (value_types.NUMBER, "1e-05", 0.00001),
        (value_types.HTTP_URL, "https://user:pass@example.org/a/b?c=d", "https://user:pass@example.org/a/b?c=d"),
        (value_types.HTTP_URL, "http://[::1]:8545", "http://[::1]:8545"),
        (value_types.RPC_URL, "wss://example.org", "wss://example.org"),
        (value_types.RPC_URL, "/tmp/geth.ipc", "/tmp/geth.ipc"),
        (value_types.RPC_URL, "./geth.ipc", "./geth.ipc"),
        (value_types.RPC_URL, "/" + "a" * 106, "/" + "a" * 106),
        (value_types.HOST, "0.0.0.0", "0.0.0.0"),
        (value_types.HOST, "::1", "::1"),
        (value_types.HOST, "localhost", "localhost"),
        (value_types.OPTIONAL_HOST, "", None),
        (value_types.HEADER, "X-Key: Value: more", ("X-Key", "Value: more")),
        (value_types.PAIRS, "key=a=b,c", ("key", "a=b,c")),
        (value_types.KEY, "0x" + "11" * 32, b"\x11" * 32),
        (value_types.KEY, "", None),
        (value_types.NETWORKS, "10.1.2.3/8", "10.0.0.0/8"),
        (value_types.LOG_LEVEL, "0", Level.SILENT),
        (value_types.LOG_LEVEL, "Detail", Level.TRACE),
        (value_types.LOG_LEVEL, "trce", Level.TRACE),
        (value_types.LOG_FORMAT, "json-pretty", "json-pretty"),
    ],
)
def test_accepted_texts(value_type: value_types.ValueType[Any], text: str, value: Any) -> None:
    assert value_type.read(text) == value


@pytest.mark.parametrize(
    ("value_type", "text"),
    [
        (value_types.BOOL, "yes"),
        (value_types.BOOL, ""),
        (value_types.COUNT, "-1"),
        (value_types.COUNT, "1.0"),
        (value_types.COUNT, "0x10"),
        (value_types.COUNT, "1" * 30),
        (value_types.PORT, "65536"),
        (value_types.NUMBER, "nan"),
        (value_types.HTTP_URL, "ws://example.org"),
        (value_types.HTTP_URL, "example.org:80"),
        (value_types.HTTP_URL, "http://"),
        (value_types.HTTP_URL, "http://a b"),
        (value_types.HTTP_URL, "http://a:0"),
        (value_types.HTTP_URL, "http://a:99999"),
        (value_types.HTTP_URL, "http://[::1"),
        (value_types.RPC_URL, "geth.ipc"),
        (value_types.RPC_URL, "ipc:///tmp/geth.ipc"),
        (value_types.RPC_URL, "/tmp/a\nb"),
        (value_types.RPC_URL, "/" + "a" * 107),
        (value_types.HTTP_URL, "/tmp/geth.ipc"),
        (value_types.HOST, ""),
        (value_types.HOST, "1.2.3.4.5"),
        (value_types.HOST, "1.2.3.400"),
        (value_types.HOST, "a b"),
        (value_types.HEADER, "X-Key:Value"),
        (value_types.HEADER, "X Key: Value"),
        (value_types.HEADER, "X-Key: a\nb"),
        (value_types.PAIRS, "key"),
        (value_types.PAIRS, "=value"),
        (value_types.KEY, "0x11"),
        (value_types.KEY, "zz" * 32),
        (value_types.NETWORKS, "10.0.0.0/33"),
        (value_types.TEXTS, ""),
        (value_types.TEXT, "a\nb"),
        (value_types.PATH, "a\0b"),
        (value_types.PATH, "a\x1b[31m"),
        (value_types.PATH, "a" * 5000),
        (value_types.NUMBER, "1e400"),
        (value_types.LOG_LEVEL, "6"),
        (value_types.LOG_FORMAT, "JSON"),
    ],
)
def test_rejected_texts(value_type: value_types.ValueType[Any], text: str) -> None:
    with pytest.raises(ValueError):
        value_type.read(text)


ALL = [value for value in vars(value_types).values() if isinstance(value, value_types.ValueType)]


@given(st.sampled_from(ALL), st.text(max_size=40) | st.from_regex(r"\A[a-z0-9:/.\[\]@-]{0,20}\Z"))
def test_any_text_is_parsed_or_rejected(value_type: value_types.ValueType[Any], text: str) -> None:
    with contextlib.suppress(ValueError):
        value_type.read(text)


@given(st.integers(-(1 << 62), 1 << 62), st.integers(-(1 << 62), 1 << 62), st.integers(-(1 << 63), (1 << 63) - 1))
def test_integers_keep_to_their_range(low: int, high: int, number: int) -> None:
    value_type = value_types.integer(low, high)
    if low <= number <= high:
        assert value_type.read(str(number)) == number
    else:
        with pytest.raises(ValueError, match="range"):
            value_type.read(str(number))


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
