"""What the types of values take."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.node.options import kinds
from rollup_node.stages.io.log import Level


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (kinds.BOOL, "true", True),
        (kinds.BOOL, "F", False),
        (kinds.BOOL, "1", True),
        (kinds.COUNT, "0", 0),
        (kinds.PORT, "65535", 65535),
        (kinds.ANY_INTEGER, "-100", -100),
        (kinds.NUMBER, "2.5", 2.5),
        (kinds.NUMBER, "-100", -100.0),
        (kinds.NUMBER, "1e-05", 0.00001),
        (kinds.HTTP_URL, "https://user:pass@example.org/a/b?c=d", "https://user:pass@example.org/a/b?c=d"),
        (kinds.HTTP_URL, "http://[::1]:8545", "http://[::1]:8545"),
        (kinds.RPC_URL, "wss://example.org", "wss://example.org"),
        (kinds.HOST, "0.0.0.0", "0.0.0.0"),
        (kinds.HOST, "::1", "::1"),
        (kinds.HOST, "localhost", "localhost"),
        (kinds.OPTIONAL_HOST, "", None),
        (kinds.HEADER, "X-Key: Value: more", ("X-Key", "Value: more")),
        (kinds.PAIRS, "key=a=b,c", ("key", "a=b,c")),
        (kinds.KEY, "0x" + "11" * 32, b"\x11" * 32),
        (kinds.KEY, "", None),
        (kinds.NETWORKS, "10.1.2.3/8", "10.0.0.0/8"),
        (kinds.LOG_LEVEL, "0", Level.SILENT),
        (kinds.LOG_LEVEL, "Detail", Level.TRACE),
        (kinds.LOG_LEVEL, "trce", Level.TRACE),
        (kinds.LOG_FORMAT, "json-pretty", "json-pretty"),
    ],
)
def test_good_texts(kind: kinds.Kind, text: str, value: Any) -> None:
    assert kind.read(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (kinds.BOOL, "yes"),
        (kinds.BOOL, ""),
        (kinds.COUNT, "-1"),
        (kinds.COUNT, "1.0"),
        (kinds.COUNT, "0x10"),
        (kinds.COUNT, "1" * 30),
        (kinds.PORT, "65536"),
        (kinds.NUMBER, "nan"),
        (kinds.HTTP_URL, "ws://example.org"),
        (kinds.HTTP_URL, "example.org:80"),
        (kinds.HTTP_URL, "http://"),
        (kinds.HTTP_URL, "http://a b"),
        (kinds.HTTP_URL, "http://a:0"),
        (kinds.HTTP_URL, "http://a:99999"),
        (kinds.HTTP_URL, "http://[::1"),
        (kinds.RPC_URL, "/tmp/geth.ipc"),
        (kinds.HOST, ""),
        (kinds.HOST, "1.2.3.4.5"),
        (kinds.HOST, "1.2.3.400"),
        (kinds.HOST, "a b"),
        (kinds.HEADER, "X-Key:Value"),
        (kinds.HEADER, "X Key: Value"),
        (kinds.HEADER, "X-Key: a\nb"),
        (kinds.PAIRS, "key"),
        (kinds.PAIRS, "=value"),
        (kinds.KEY, "0x11"),
        (kinds.KEY, "zz" * 32),
        (kinds.NETWORKS, "10.0.0.0/33"),
        (kinds.TEXTS, ""),
        (kinds.TEXT, "a\nb"),
        (kinds.PATH, "a\0b"),
        (kinds.PATH, "a\x1b[31m"),
        (kinds.PATH, "a" * 5000),
        (kinds.NUMBER, "1e400"),
        (kinds.LOG_LEVEL, "6"),
        (kinds.LOG_FORMAT, "JSON"),
    ],
)
def test_bad_texts_are_refused(kind: kinds.Kind, text: str) -> None:
    with pytest.raises(ValueError):
        kind.read(text)


ALL = [kind for kind in vars(kinds).values() if isinstance(kind, kinds.Kind)]


@given(st.sampled_from(ALL), st.text(max_size=40) | st.from_regex(r"\A[a-z0-9:/.\[\]@-]{0,20}\Z"))
def test_any_text_reads_or_is_refused(kind: kinds.Kind, text: str) -> None:
    with contextlib.suppress(ValueError):
        kind.read(text)


@given(st.integers(-(1 << 62), 1 << 62), st.integers(-(1 << 62), 1 << 62), st.integers(-(1 << 63), (1 << 63) - 1))
def test_integers_keep_to_their_range(low: int, high: int, number: int) -> None:
    kind = kinds.integer(low, high)
    if low <= number <= high:
        assert kind.read(str(number)) == number
    else:
        with pytest.raises(ValueError, match="range"):
            kind.read(str(number))
