"""Which texts the types of values accept."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.node.options import value_types
from rollup_node.node.options.value_types import parse_duration
from rollup_node.stages.io.log.logger import Level

ACCEPTED: list[tuple[value_types.ValueType[Any], dict[str, Any]]] = [
    (value_types.BOOL, {"true": True, "F": False, "1": True}),
    (value_types.COUNT, {"0": 0}),
    (value_types.OPTIONAL_COUNT, {"7": 7, "0": None}),
    (value_types.PORT, {"65535": 65535}),
    (value_types.ANY_INTEGER, {"-100": -100}),
    (value_types.NUMBER, {"2.5": 2.5, "-100": -100.0, "1e-05": 0.00001}),
    (value_types.OPTIONAL_HOST, {"": None}),
    (value_types.HEADER, {"X-Key: Value: more": ("X-Key", "Value: more")}),
    (value_types.PAIRS, {"key=a=b,c": ("key", "a=b,c")}),
    (value_types.KEY, {"0x" + "11" * 32: b"\x11" * 32, "": None}),
    (value_types.NETWORKS, {"10.1.2.3/8": "10.0.0.0/8"}),
    (value_types.LOG_LEVEL, {"0": Level.SILENT, "Detail": Level.TRACE, "trce": Level.TRACE}),
    (value_types.LOG_FORMAT, {"json-pretty": "json-pretty"}),
    (value_types.DURATION, {"12s": 12.0, "6m24s": 384.0, "1h0m0s": 3600.0, "500ms": 0.5, "1.5h": 5400.0, ".5s": 0.5}),
    (value_types.DURATION, {"2.s": 2.0, "0": 0.0, "0s": 0.0, "-1s": -1.0, "+3m": 180.0, "10µs": 1e-5, "1s1h": 3601.0}),
    (value_types.DURATION, {"1h2m3s4ms5us6ns": 3723.004005006}),
]
KEPT = [
    (value_types.HTTP_URL, ("https://user:pass@example.org/a/b?c=d", "http://[::1]:8545")),
    (value_types.HOST, ("0.0.0.0", "::1", "localhost")),
    (value_types.RPC_URL, ("wss://example.org", "/tmp/geth.ipc", "./geth.ipc", "/" + "a" * 106)),
]
"""Texts that are their own values."""


@pytest.mark.parametrize(
    ("value_type", "text", "value"),
    [
        *((value_type, text, value) for value_type, values in ACCEPTED for text, value in values.items()),
        *((value_type, text, text) for value_type, texts in KEPT for text in texts),
    ],
)
def test_accepted_texts(value_type: value_types.ValueType[Any], text: str, value: Any) -> None:
    assert value_type.read(text) == value


REJECTED: list[tuple[value_types.ValueType[Any], tuple[str, ...]]] = [
    (value_types.BOOL, ("yes", "")),
    (value_types.COUNT, ("-1", "1.0", "0x10", "1" * 30)),
    (value_types.PORT, ("65536",)),
    (value_types.NUMBER, ("nan", "1e400")),
    (value_types.HTTP_URL, ("ws://example.org", "example.org:80", "http://", "http://a b", "http://a:0")),
    (value_types.HTTP_URL, ("http://a:99999", "http://[::1", "/tmp/geth.ipc")),
    (value_types.RPC_URL, ("geth.ipc", "ipc:///tmp/geth.ipc", "/tmp/a\nb", "/" + "a" * 107)),
    (value_types.HOST, ("", "1.2.3.4.5", "1.2.3.400", "a b")),
    (value_types.HEADER, ("X-Key:Value", "X Key: Value", "X-Key: a\nb")),
    (value_types.PAIRS, ("key", "=value")),
    (value_types.KEY, ("0x11", "zz" * 32)),
    (value_types.NETWORKS, ("10.0.0.0/33",)),
    (value_types.TEXTS, ("",)),
    (value_types.TEXT, ("a\nb",)),
    (value_types.PATH, ("a\0b", "a\x1b[31m", "a" * 5000)),
    (value_types.LOG_LEVEL, ("6",)),
    (value_types.LOG_FORMAT, ("JSON",)),
    (value_types.DURATION, ("", "12", "s", "1 s", "1d", "--1s", ".s", "1s ", "3e2s", "1h-2m", "9" * 99 + "h", "٣s")),
]


@pytest.mark.parametrize(
    ("value_type", "text"), [(value_type, text) for value_type, texts in REJECTED for text in texts]
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


@given(st.booleans(), *[st.integers(0, 10**6)] * 4)
def test_units_add_up(negative: bool, hours: int, seconds: int, milliseconds: int, microseconds: int) -> None:
    text = f"{'-' if negative else ''}{hours}h{seconds}s{milliseconds}ms{microseconds}us"
    total = hours * 3600 + seconds + milliseconds / 1e3 + microseconds / 1e6
    assert parse_duration(text) == pytest.approx(-total if negative else total, abs=1e-6)
