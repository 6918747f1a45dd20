"""The types of option values: which texts they accept, and how an error describes what is expected."""

import ipaddress
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from rollup_node.node.options.errors import ValueHint
from rollup_node.node.system.log_formats import FORMATS
from rollup_node.stages.io.http.endpoint_errors import is_ipc
from rollup_node.stages.io.log.logger import Level, parse_level

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = r"(\d+\.\d*|\.\d+|\d+)(ns|us|µs|μs|ms|s|m|h)"
_PARTS = re.compile(_PART, re.ASCII)
_DURATION = re.compile(rf"([+-]?)((?:{_PART})+)", re.ASCII)
_MAX_NANOSECONDS = (1 << 63) - 1


def parse_duration(text: str) -> float:
    """Return the seconds of a duration, exact to a nanosecond [OPT2]. Raises ValueError for others, over 292 years."""
    if text in ("0", "+0", "-0"):
        return 0.0
    match = _DURATION.fullmatch(text) if len(text) <= 100 else None
    if match is None:
        if text.isascii() and text.isdigit():
            raise ValueHint(f"a duration has a unit: {text[:20]}s?")
        raise ValueError("not a duration")
    total = sum(_nanoseconds(number, unit) for number, unit in _PARTS.findall(match[2]))
    if total > _MAX_NANOSECONDS:
        raise ValueError("too long a duration")
    return (-total if match[1] == "-" else total) / 1e9


def _nanoseconds(number: str, unit: str) -> int:
    whole, _, fraction = number.partition(".")
    scale = _NANOSECONDS[unit]
    rest: int = int(fraction or 0) * scale // int("1" + "0" * len(fraction))
    return int(whole or 0) * scale + rest


T = TypeVar("T")

_TRUE = frozenset({"1", "t", "true"})
_FALSE = frozenset({"0", "f", "false"})
_HOST_NAME = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*\.?", re.ASCII)
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+): (.*)", re.ASCII)
_HOST_AND_PORT = re.compile(r"([A-Za-z0-9-]+\.)*[A-Za-z0-9-]+:[0-9]{1,5}", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_MAX_INTEGER = (1 << 63) - 1
MAX_PATH_BYTES = 4095
MAX_SOCKET_PATH = 107
"""Bytes: that of a Unix socket in Linux."""


@dataclass(frozen=True)
class ValueType(Generic[T]):
    """A type of value; T is the Python type. `label` names it in tables, `expected` completes "expected ...".

    `read` parses a text and raises ValueError when it does not accept it. A list is `is_list`: it may be given several
    times, `read` parses one item, and texts are split at commas, except in flags when `split_flags` is False.
    `allowed` are the words of an enum."""

    label: str
    expected: str
    read: Callable[[str], Any]
    is_list: bool = False
    split_flags: bool = True
    allowed: tuple[str, ...] = ()


def scalar(label: str, expected: str, read: Callable[[str], T], allowed: tuple[str, ...] = ()) -> ValueType[T]:
    """Return a type of single values."""
    return ValueType(label, expected, read, allowed=allowed)


def list_of(
    label: str, expected: str, read: Callable[[str], T], *, split_flags: bool = True
) -> ValueType[tuple[T, ...]]:
    """Return a type of lists whose items `read` parses."""
    return ValueType(label, expected, read, is_list=True, split_flags=split_flags)


def integer(low: int, high: int = _MAX_INTEGER) -> ValueType[int]:
    """Whole numbers from `low` to `high`."""

    def read(text: str) -> int:
        if not _INTEGER.fullmatch(text) or not low <= int(text) <= high:
            raise ValueError("out of range")
        return int(text)

    limits = f"of at least {low}" if high >= _MAX_INTEGER else f"from {low} to {high}"
    return scalar("int", "a whole number" if low < -(1 << 62) else f"a whole number {limits}", read)


def checked(is_valid: Callable[[str], bool]) -> Callable[[str], str]:
    """Return a reader that takes the texts of which the check is true as they are."""

    def read(text: str) -> str:
        if not is_valid(text):
            raise ValueError("not valid")
        return text

    return read


def enum(*allowed: str) -> ValueType[str]:
    """One of the words, exactly."""
    return scalar("enum", f"one of {', '.join(allowed)}", checked(allowed.__contains__), allowed)


def zero_is_none(value_type: ValueType[int]) -> ValueType[int | None]:
    """Return the same texts, where 0 stands for no value."""
    return scalar(value_type.label, value_type.expected, lambda text: value_type.read(text) or None)


def empty_is_none(value_type: ValueType[T]) -> ValueType[T | None]:
    """Return the same texts, and the empty text for no value."""
    expected = f"{value_type.expected}, or nothing"
    return scalar(value_type.label, expected, lambda text: value_type.read(text) if text else None)


def read_boolean(text: str) -> bool:
    """Read `true` or `false` and the short forms, in any case. Raises ValueError for other texts."""
    lowered = text.strip().lower()
    if lowered in _TRUE or lowered in _FALSE:
        return lowered in _TRUE
    raise ValueError("not a boolean")


def _read_number(text: str) -> float:
    if not re.fullmatch(r"[+-]?(\d{1,15}(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?", text, re.ASCII):
        raise ValueError("not a number")
    return float(text)


def _read_url(text: str, schemes: tuple[str, ...]) -> str:
    if not text.isprintable() or " " in text:
        raise ValueError("not a URL")
    if _HOST_AND_PORT.fullmatch(text):
        raise ValueHint(f"did you mean http://{text}?")
    parts = urlsplit(text)
    if "://" in text and parts.scheme not in schemes:
        raise ValueHint(f"it takes {' or '.join(schemes)}, not {parts.scheme}")
    port = re.search(r":([0-9]+)$", parts.netloc)
    if port is not None and not 0 < int(port[1][:9]) < 1 << 16:
        raise ValueHint(f"port {port[1]} is not between 1 and 65535")
    if parts.scheme not in schemes or not parts.hostname or parts.port == 0:
        raise ValueError("not a URL")
    return text


def _is_path(text: str) -> bool:
    return len(os.fsencode(text)) <= MAX_PATH_BYTES and not any(ord(char) < 32 or ord(char) == 127 for char in text)


def _read_host(text: str) -> str:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        if not _HOST_NAME.fullmatch(text) or re.fullmatch(r"[0-9.]+", text):
            raise ValueError("not an address") from None
    return text


def _read_header(text: str) -> tuple[str, str]:
    match = _HEADER.fullmatch(text)
    if match is None or not match[2].isprintable():
        raise ValueError("not a header")
    return match[1], match[2]


def _read_pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key or not value.isprintable():
        raise ValueError("not a pair")
    return key, value


def _read_bytes(text: str, size: int) -> bytes:
    value = bytes.fromhex(text.removeprefix("0x"))
    if len(value) != size:
        raise ValueError(f"not {size} bytes")
    return value


def _read_network(text: str) -> str:
    return str(ipaddress.ip_network(text, strict=False))


BOOL: ValueType[bool] = scalar("bool", "true or false", read_boolean)
NUMBER: ValueType[float] = scalar("number", "a number", _read_number)
ANY_INTEGER = integer(-(1 << 63))
COUNT = integer(0)
OPTIONAL_COUNT = zero_is_none(COUNT)
PORT = integer(0, 65535)
DURATION: ValueType[float] = scalar("duration", "a duration such as 12s, 6m24s or 500ms", parse_duration)
_read_http_url = partial(_read_url, schemes=("http", "https"))


def _read_rpc_url(text: str) -> str:
    if not is_ipc(text):
        if text.endswith(".ipc") and "://" not in text:
            raise ValueHint(f"did you mean ./{text}?")
        return _read_url(text, ("http", "https", "ws", "wss"))
    if not _is_path(text):
        raise ValueError("not a path")
    if len(os.fsencode(text)) > MAX_SOCKET_PATH:
        raise ValueHint(f"the path of a socket has at most {MAX_SOCKET_PATH} bytes")
    return text


HTTP_URL = scalar("url", "an address such as http://127.0.0.1:8545", _read_http_url)
RPC_URL = scalar("url", "an address such as http://127.0.0.1:8545, or the path of an IPC socket", _read_rpc_url)
HTTP_URLS = list_of("list of url", f"{HTTP_URL.expected}, or several with commas between", _read_http_url)
RPC_URLS = list_of("list of url", f"{RPC_URL.expected}, or several with commas between", _read_rpc_url)
TEXT = scalar("string", "a text on one line", checked(str.isprintable))
NETWORK_NAME = scalar("string", "a name such as op-mainnet (rollup-node networks lists them)", checked(str.isprintable))
TEXTS = list_of("list of string", "texts with commas between", checked(lambda text: bool(text) and text.isprintable()))
PATH = scalar("path", "a path", checked(_is_path))
OPTIONAL_PATH = empty_is_none(PATH)
HOST = scalar("string (IP address)", "an IP address or host name", _read_host)
OPTIONAL_HOST = empty_is_none(HOST)
HEADER = scalar("string", "a header of the form `X-Key: Value`", _read_header)
PAIRS = list_of("list of string", "pairs of the form key=value", _read_pair, split_flags=False)
KEY = empty_is_none(scalar("string", "a private key or secret: 32 bytes in hex", partial(_read_bytes, size=32)))
ROOT = empty_is_none(scalar("string", "a block root: 32 bytes in hex", partial(_read_bytes, size=32)))
OPTIONAL_HTTP_URL = empty_is_none(HTTP_URL)
OPTIONAL_ADDRESS = empty_is_none(scalar("string", "an address: 20 bytes in hex", partial(_read_bytes, size=20)))
NETWORKS = list_of("list of CIDR", "networks such as 10.0.0.0/8, with commas between", _read_network)
LOG_LEVEL: ValueType[Level] = scalar(
    "enum", "one of silent, error, warn, info, debug, detail, or a number from 0 to 5", parse_level
)
LOG_FORMAT = enum(*FORMATS)
