"""Bootnodes in their text forms: node records, and `enode://` URLs, whose host may be a name [DSC10]."""

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from rollup_node.stages.p2p.addresses.ip import IpAddress, IpAddressError, parse_ip
from rollup_node.stages.p2p.discv5 import crypto
from rollup_node.stages.p2p.discv5.enr import PREFIX, Contact, Endpoint, Enr, parse_enr
from rollup_node.stages.protocol import secp256k1

_KEY = re.compile(r"[0-9a-fA-F]{128}")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_MAX_URL_CHARACTERS = 600


class BootnodeError(ValueError):
    """Not a bootnode; the text says why."""


class Enode(NamedTuple):
    """A node by its URL: compressed public key, host (IP address or name), UDP port."""

    public_key: bytes
    host: str
    port: int

    @property
    def address(self) -> IpAddress | None:
        """The IP address; None for a host name."""
        try:
            return parse_ip(self.host)
        except IpAddressError:
            return None

    def contact(self, address: IpAddress) -> Contact:
        """Return the node's contact, its host being at this address."""
        return Contact(crypto.node_id(self.public_key), self.public_key, Endpoint(address, self.port))


def parse_bootnode(text: str) -> Enr | Enode:
    """Parse a bootnode. Raises BootnodeError."""
    text = text.strip()
    try:
        return parse_enr(text) if text.startswith(PREFIX) else _parse_enode(text)
    except ValueError as error:
        raise BootnodeError(f"bootnode {text[:60]!r}: {error} (p2p.bootnodes)") from None


def _parse_enode(text: str) -> Enode:
    """Parse `enode://<128 hex digits>@host:port?discport=port`; the UDP port is `discport`, else `port`."""
    if len(text) > _MAX_URL_CHARACTERS or not text.startswith("enode://"):
        raise BootnodeError("expected enr:... or enode://...")
    url = urlsplit(text)
    if not _KEY.fullmatch(url.username or "") or not url.hostname:
        raise BootnodeError("expected enode://<128 hex digits>@<host>:<port>")
    port = url.port or 0
    value = parse_qs(url.query).get("discport")
    if value is not None:
        if not (value[0].isascii() and value[0].isdigit()) or len(value[0]) > 5:
            raise BootnodeError("discport is not a port")
        port = int(value[0])
    if not 0 < port <= 0xFFFF:
        raise BootnodeError("no UDP port from 1 to 65535")
    return Enode(secp256k1.convert_point(b"\x04" + bytes.fromhex(url.username or "")), _host(url.hostname), port)


def _host(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not _NAME.fullmatch(host):
        raise BootnodeError("neither an IP address nor a host name")
    return host
