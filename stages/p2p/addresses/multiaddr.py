"""Multiaddrs of the protocols this node can dial: ip4, ip6, dns, dns4, dns6, tcp, udp and p2p.

Others are rejected; lists that come from peers are read by `decode_supported`, which skips them.
Source: https://github.com/multiformats/multiaddr"""

import ipaddress
import re
from collections.abc import Iterable
from typing import NamedTuple

from rollup_node.stages.p2p.addresses.peer_id import (
    IdentityError,
    PeerId,
    parse_peer_id,
    peer_id_text,
    validate_peer_id,
)
from rollup_node.stages.p2p.encoding import varint

MAX_BYTES = 1024
_MAX_HOST_NAME = 253
_HOST_NAME = re.compile(r"[A-Za-z0-9._-]+")
_CODES = {"ip4": 4, "tcp": 6, "ip6": 41, "dns": 53, "dns4": 54, "dns6": 55, "udp": 273, "p2p": 421}
_NAMES = {code: name for name, code in _CODES.items()}
_SIZES = {"ip4": 4, "ip6": 16, "tcp": 2, "udp": 2}
_HOSTS = ("ip4", "ip6", "dns", "dns4", "dns6")


class MultiaddrError(ValueError):
    """Not a multiaddr, or one with a protocol that this node does not support."""


class Component(NamedTuple):
    """One protocol of a multiaddr and its value as text."""

    name: str
    value: str


class TcpAddress(NamedTuple):
    """A TCP dial target: an IP address, or a host name that `family` (`ip4`, `ip6`, or None for both) limits."""

    host: str
    port: int
    is_host_name: bool
    family: str | None


class Multiaddr(NamedTuple):
    components: tuple[Component, ...]

    def __str__(self) -> str:
        return "".join(f"/{name}/{value}" for name, value in self.components)

    def encode(self) -> bytes:
        return b"".join(_encode_component(part) for part in self.components)

    @property
    def peer_id(self) -> PeerId | None:
        """The peer id in the last component; None without one."""
        return (
            parse_peer_id(self.components[-1].value) if self.components and self.components[-1].name == "p2p" else None
        )

    @property
    def without_peer_id(self) -> "Multiaddr":
        """The address without its peer id."""
        return Multiaddr(self.components[:-1]) if self.peer_id is not None else self

    def with_peer_id(self, peer: PeerId) -> "Multiaddr":
        """Return the address with this peer id as its last component."""
        return Multiaddr((*self.without_peer_id.components, Component("p2p", peer_id_text(peer))))

    @property
    def tcp(self) -> TcpAddress | None:
        """Host and port when this is plain TCP, else None."""
        names = [part.name for part in self.without_peer_id.components]
        if len(names) != 2 or names[0] not in _HOSTS or names[1] != "tcp":
            return None
        kind, host = self.components[0]
        family = {"dns4": "ip4", "dns6": "ip6"}.get(kind)
        return TcpAddress(host, int(self.components[1].value), kind.startswith("dns"), family)


def tcp_multiaddr(host: str, port: int) -> Multiaddr:
    address = ipaddress.ip_address(host)
    return Multiaddr((Component(f"ip{address.version}", str(address)), Component("tcp", str(port))))


def parse_multiaddr(text: str) -> Multiaddr:
    """Parse the text form; `/ipfs/` is read as `/p2p/`. Raises MultiaddrError."""
    if len(text) > MAX_BYTES or not text.startswith("/"):
        raise MultiaddrError(f"{text[:80]!r} is not a multiaddr such as /ip4/192.0.2.1/tcp/9222/p2p/16Uiu2HA...")
    words = text.rstrip("/").split("/")[1:]
    parts = []
    for index in range(0, len(words), 2):
        name = "p2p" if words[index] == "ipfs" else words[index]
        if index + 1 == len(words) or name not in _CODES:
            raise MultiaddrError(f"{text!r}: {words[index]!r} is not supported, or has no value")
        parts.append(Component(name, words[index + 1]))
    return _validated(parts, text)


def decode_multiaddr(data: bytes) -> Multiaddr:
    """Decode the binary form. Raises MultiaddrError."""
    if len(data) > MAX_BYTES:
        raise MultiaddrError(f"multiaddr of {len(data)} bytes")
    parts, offset = [], 0
    while offset < len(data):
        code, offset = _read_varint(data, offset)
        name = _NAMES.get(code)
        if name is None:
            raise MultiaddrError(f"multiaddr protocol {code} is not supported")
        size, offset = (_SIZES[name], offset) if name in _SIZES else _read_varint(data, offset)
        raw, offset = data[offset : offset + size], offset + size
        if offset > len(data):
            raise MultiaddrError("multiaddr ends within a value")
        parts.append(Component(name, _decode_value(name, raw)))
    return _validated(parts, data.hex())


def decode_supported(addresses: Iterable[bytes]) -> list[Multiaddr]:
    """Decode the addresses that this node supports and skips the others."""
    supported = []
    for raw in addresses:
        try:
            supported.append(decode_multiaddr(raw))
        except MultiaddrError:
            continue
    return supported


def _validated(parts: list[Component], shown: str) -> Multiaddr:
    """Return the address with each value in its canonical form."""
    if not parts:
        raise MultiaddrError("empty multiaddr")
    if any(part.name == "p2p" for part in parts[:-1]):
        raise MultiaddrError(f"{shown}: p2p must be the last protocol")
    try:
        return Multiaddr(tuple(Component(part.name, _canonical_value(part)) for part in parts))
    except (ValueError, IdentityError) as error:
        raise MultiaddrError(f"{shown}: {error}") from None


def _canonical_value(part: Component) -> str:
    name, value = part
    if name == "ip4":
        return str(ipaddress.IPv4Address(value))
    if name == "ip6":
        return str(ipaddress.IPv6Address(value))
    if name in ("tcp", "udp"):
        if not (value.isascii() and value.isdigit()) or int(value) > 0xFFFF:
            raise ValueError(f"{value!r} is not a port")
        return str(int(value))
    if name == "p2p":
        return peer_id_text(parse_peer_id(value))
    if len(value) > _MAX_HOST_NAME or not _HOST_NAME.fullmatch(value):
        raise ValueError(f"{value!r} is not a host name")
    return value


def _encode_component(part: Component) -> bytes:
    name, value = part
    code = varint.encode(_CODES[name])
    if name in ("ip4", "ip6"):
        return code + ipaddress.ip_address(value).packed
    if name in ("tcp", "udp"):
        return code + int(value).to_bytes(2, "big")
    raw = parse_peer_id(value) if name == "p2p" else value.encode()
    return code + varint.encode(len(raw)) + raw


def _decode_value(name: str, raw: bytes) -> str:
    try:
        if name in ("ip4", "ip6"):
            return str(ipaddress.ip_address(raw))
        if name in ("tcp", "udp"):
            return str(int.from_bytes(raw, "big"))
        return peer_id_text(validate_peer_id(raw)) if name == "p2p" else raw.decode("ascii")
    except ValueError as error:
        raise MultiaddrError(f"multiaddr {name}: {error}") from None


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    try:
        result = varint.decode(data, offset)
    except varint.VarintError as error:
        raise MultiaddrError(str(error)) from None
    if result is None:
        raise MultiaddrError("multiaddr ends within a number")
    return result
