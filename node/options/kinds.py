"""The types of option values: what texts they take, and what is said of a text they do not take."""

import ipaddress
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from rollup_node.node.options.durations import parse_duration
from rollup_node.node.system.log_formats import FORMATS, parse_level

_TRUE = frozenset({"1", "t", "true"})
_FALSE = frozenset({"0", "f", "false"})
_HOST_NAME = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62}\.?)*", re.ASCII)
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+): (.*)", re.ASCII)
LONGEST_PATH = 4095
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


@dataclass(frozen=True)
class Kind:
    """A type of value. `label` names it in tables, `expected` completes "expected ...", `read` turns a text into
    the value or raises ValueError. `many`: a list, each item read by `read`, given repeatedly; its texts are split
    at commas, for `split_flags` False only in the environment. `allowed` are the words of an enum."""

    label: str
    expected: str
    read: Callable[[str], Any]
    many: bool = False
    split_flags: bool = True
    allowed: tuple[str, ...] = ()


def read_boolean(text: str) -> bool:
    """`true` or `false` and the short forms, in any case; ValueError for other texts."""
    lowered = text.strip().lower()
    if lowered in _TRUE or lowered in _FALSE:
        return lowered in _TRUE
    raise ValueError("not a boolean")


def integer(low: int, high: int = (1 << 63) - 1) -> Kind:
    """Whole numbers from `low` to `high`."""

    def read(text: str) -> int:
        if not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
            raise ValueError("not in the range")
        return int(text)

    limits = f"of at least {low}" if high >= (1 << 63) - 1 else f"from {low} to {high}"
    return Kind("int", "a whole number" if low < -(1 << 62) else f"a whole number {limits}", read)


def enum(*allowed: str) -> Kind:
    """One of the words, exactly."""

    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError("not one of them")
        return text

    return Kind("enum", f"one of {', '.join(allowed)}", read, allowed=allowed)


def _read_number(text: str) -> float:
    if not re.fullmatch(r"[+-]?(\d{1,15}(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?", text, re.ASCII):
        raise ValueError("not a number")
    return float(text)


def _read_url(text: str, schemes: tuple[str, ...]) -> str:
    parts = urlsplit(text)
    port_is_good = parts.port is None or parts.port > 0
    if parts.scheme not in schemes or not parts.hostname or not port_is_good or not text.isprintable() or " " in text:
        raise ValueError("not a URL")
    return text


def _read_words(text: str) -> str:
    if not text.isprintable():
        raise ValueError("not printable")
    return text


def _read_item(text: str) -> str:
    if not text or not text.isprintable():
        raise ValueError("empty")
    return text


def _read_path(text: str) -> str:
    if len(os.fsencode(text)) > LONGEST_PATH or any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise ValueError("not a path")
    return text


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


def _read_key(text: str) -> bytes:
    key = bytes.fromhex(text.removeprefix("0x"))
    if len(key) != 32:
        raise ValueError("not 32 bytes")
    return key


def _read_network(text: str) -> str:
    return str(ipaddress.ip_network(text, strict=False))


def _optional(kind: Kind) -> Kind:
    """The same, and the empty text as None."""
    return Kind(kind.label, f"{kind.expected}, or nothing", lambda text: kind.read(text) if text else None)


BOOL = Kind("bool", "true or false", read_boolean)
NUMBER = Kind("number", "a number", _read_number)
ANY_INTEGER = integer(-(1 << 63))
COUNT = integer(0)
PORT = integer(0, 65535)
DURATION = Kind("duration", "a duration such as 12s, 6m24s or 500ms", parse_duration)
HTTP_URL = Kind("url", "an address such as http://127.0.0.1:8545", lambda text: _read_url(text, ("http", "https")))
RPC_URL = Kind(
    "url",
    "an address such as http://127.0.0.1:8545",
    lambda text: _read_url(text, ("http", "https", "ws", "wss")),
)
HTTP_URLS = Kind("list of url", f"{HTTP_URL.expected}, or several with commas between", HTTP_URL.read, many=True)
RPC_URLS = Kind("list of url", f"{RPC_URL.expected}, or several with commas between", RPC_URL.read, many=True)
TEXT = Kind("string", "a text on one line", _read_words)
TEXTS = Kind("list of string", "texts with commas between", _read_item, many=True)
PATH = Kind("path", "a path", _read_path)
HOST = Kind("string (IP address)", "an IP address or host name", _read_host)
OPTIONAL_HOST = _optional(HOST)
HEADER = Kind("string", "a header of the form `X-Key: Value`", _read_header)
PAIRS = Kind("list of string", "pairs of the form key=value", _read_pair, many=True, split_flags=False)
KEY = _optional(Kind("string", "a private key: 32 bytes in hex", _read_key))
NETWORKS = Kind("list of CIDR", "networks such as 10.0.0.0/8, with commas between", _read_network, many=True)
LOG_LEVEL = Kind("enum", "one of silent, error, warn, info, debug, detail, or a number from 0 to 5", parse_level)
LOG_FORMAT = enum(*FORMATS)
