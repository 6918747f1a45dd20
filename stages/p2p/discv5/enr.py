"""Node records (ENR) of the identity scheme "v4": signed pairs with a node's endpoints and chain [DSC2, DSC3].

The chain stands under the key `opstack`. With them how a node is reached, and distances between node ids. Source:
https://eips.ethereum.org/EIPS/eip-778"""

import base64
import binascii
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

from rollup_node.stages.p2p.addresses.ip import IpAddress
from rollup_node.stages.p2p.addresses.peer_id import NodeId, node_id
from rollup_node.stages.p2p.encoding import varint
from rollup_node.stages.protocol import rlp, secp256k1
from rollup_node.stages.protocol.keccak import keccak256


class Endpoint(NamedTuple):
    """An IP address and UDP or TCP port."""

    ip: IpAddress
    port: int

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if self.ip.version == 6 else f"{self.ip}:{self.port}"


class Contact(NamedTuple):
    """What a handshake needs to know of a node: without `record` when its enode URL is all that is known."""

    node_id: NodeId
    public_key: bytes
    endpoint: Endpoint
    record: "Enr | None" = None


def log_distance(first: NodeId, second: NodeId) -> int:
    """Return the logarithmic distance of two node ids: 0 for the same id, up to 256."""
    return (int.from_bytes(first, "big") ^ int.from_bytes(second, "big")).bit_length()


def xor_distance(node: NodeId, target: NodeId) -> int:
    """Return the XOR distance of two node ids, a sort key for closeness."""
    return int.from_bytes(node, "big") ^ int.from_bytes(target, "big")


MAX_RECORD_BYTES = 300
SIGNATURE_SIZE, PUBLIC_KEY_SIZE = 64, 33
PREFIX = "enr:"
OPSTACK = b"opstack"
_IDENTITY_SCHEME = b"v4"
_CACHE_SIZE = 1024
_MAX_TEXT_CHARACTERS = len(PREFIX) + 4 * (MAX_RECORD_BYTES + 2) // 3
_ENDPOINT_KEYS = {4: (b"ip", b"udp", b"tcp"), 6: (b"ip6", b"udp6", b"tcp6")}


class EnrError(ValueError):
    """Not a node record, or not signed by the node it describes."""


class OpStackEntry(NamedTuple):
    """The value of `opstack`: the L2 chain id, and version 0."""

    chain_id: int
    version: int = 0

    def encode(self) -> bytes:
        """Return the value's bytes."""
        return varint.encode(self.chain_id) + varint.encode(self.version)


def decode_opstack(value: bytes) -> OpStackEntry | None:
    """Decode the value of `opstack`; bytes after the two numbers are ignored [DSC5]. None when it is malformed."""
    try:
        chain = varint.decode_protobuf(value)
        version = varint.decode_protobuf(value, chain[1]) if chain else None
    except varint.VarintError:
        return None
    return OpStackEntry(chain[0], version[0]) if chain and version else None


@dataclass(frozen=True)
class Enr:
    """A record with a valid signature: its encoding, the values in RLP by key, the compressed public key."""

    raw: bytes
    seq: int = field(compare=False)
    pairs: Mapping[bytes, bytes] = field(compare=False, repr=False)
    public_key: bytes = field(compare=False, repr=False)
    node_id: NodeId = field(compare=False)

    @property
    def text(self) -> str:
        """The text form, `enr:...`."""
        return PREFIX + base64.urlsafe_b64encode(self.raw).rstrip(b"=").decode()

    def value(self, key: bytes) -> bytes | None:
        """Return the byte string under a key; None when there is none."""
        try:
            result = rlp.decode(self.pairs[key]) if key in self.pairs else None
        except rlp.RlpError:
            return None
        return result if isinstance(result, bytes) else None

    def udp(self, version: int) -> Endpoint | None:
        """Return the discovery endpoint for IP version 4 or 6."""
        return self._addresses[version][0]

    def tcp(self, version: int) -> Endpoint | None:
        """Return the libp2p endpoint for IP version 4 or 6."""
        return self._addresses[version][1]

    def contact(self, versions: tuple[int, ...] = (4, 6)) -> Contact | None:
        """Return the node's contact, by the first of the IP versions that it has an endpoint for; None without one."""
        for version in versions:
            if (endpoint := self.udp(version)) is not None:
                return Contact(self.node_id, self.public_key, endpoint, self)
        return None

    @cached_property
    def opstack(self) -> OpStackEntry | None:
        """The chain id in the record's opstack entry; None without a valid entry."""
        value = self.value(OPSTACK)
        return None if value is None else decode_opstack(value)

    @cached_property
    def _addresses(self) -> dict[int, tuple[Endpoint | None, Endpoint | None]]:
        """UDP and TCP endpoint by IP version."""
        return {version: (self._address(version, 1), self._address(version, 2)) for version in _ENDPOINT_KEYS}

    def _address(self, version: int, kind: int) -> Endpoint | None:
        names = _ENDPOINT_KEYS[version]
        ip = _ip(self.value(names[0]), version)
        port = self._port(names[kind]) or self._port(_ENDPOINT_KEYS[4][kind])
        return Endpoint(ip, port) if ip is not None and port else None

    def _port(self, name: bytes) -> int:
        value = self.value(name)
        return int.from_bytes(value, "big") if value is not None and len(value) <= 2 else 0


def _ip(value: bytes | None, version: int) -> IpAddress | None:
    if value is None or len(value) != (4 if version == 4 else 16):
        return None
    address = ipaddress.ip_address(value)
    return None if address.is_unspecified or address.is_multicast else address


def sign_enr(secret: bytes, seq: int, values: Mapping[bytes, bytes]) -> Enr:
    """Sign a record of our own; `id` and `secp256k1` are added to the values. Raises EnrError when it is too long."""
    key = secp256k1.public_key(secret)
    strings = {**values, b"id": _IDENTITY_SCHEME, b"secp256k1": key}
    pairs = {name: rlp.encode_bytes(strings[name]) for name in sorted(strings)}
    content = [rlp.encode_int(seq)]
    for name, value in pairs.items():
        content += (rlp.encode_bytes(name), value)
    signature = secp256k1.sign_recoverable(keccak256(rlp.encode_list(content)), secret)[:SIGNATURE_SIZE]
    raw = rlp.encode_list([rlp.encode_bytes(signature), *content])
    if len(raw) > MAX_RECORD_BYTES:
        raise EnrError(f"node record of {len(raw)} bytes, more than {MAX_RECORD_BYTES}")
    return Enr(raw, seq, pairs, key, node_id(key))


@lru_cache(maxsize=_CACHE_SIZE)
def decode_enr(raw: bytes) -> Enr:
    """Decode a record and verify its signature; cached, as nodes send the same ones again. Raises EnrError."""
    if len(raw) > MAX_RECORD_BYTES:
        raise EnrError(f"node record of {len(raw)} bytes, more than {MAX_RECORD_BYTES}")
    try:
        items = rlp.split(raw)
        if len(items) < 2 or len(items) % 2:
            raise EnrError("node record with a key but no value")
        signature = rlp.decode_sized(rlp.decode(items[0]), SIGNATURE_SIZE)
        seq = rlp.decode_int(rlp.decode(items[1]), bits=64)
        pairs = _pairs(items)
        key = _key(pairs)
    except rlp.RlpError as error:
        raise EnrError(f"node record: {error}") from None
    try:
        identity = node_id(key)
    except ValueError as error:
        raise EnrError(f"node record: {error}") from None
    if not secp256k1.verify_compact(key, keccak256(rlp.encode_list(items[1:])), signature):
        raise EnrError("node record with a wrong signature")
    return Enr(raw, seq, pairs, key, identity)


def parse_enr(text: str) -> Enr:
    """Parse the text form. Raises EnrError."""
    if len(text) > _MAX_TEXT_CHARACTERS or not text.isascii() or not text.startswith(PREFIX):
        raise EnrError("not a node record: expected enr: and at most 300 bytes in base64")
    body = text.removeprefix(PREFIX).rstrip("=").replace("+", "-").replace("/", "_")
    try:
        raw = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise EnrError("node record that is not base64") from None
    try:
        return decode_enr(raw)
    except EnrError as error:
        raise EnrError(f"its base64 is that of no node record (enr:-...), a part of it may be lost: {error}") from None


def _pairs(items: list[bytes]) -> dict[bytes, bytes]:
    pairs: dict[bytes, bytes] = {}
    last = None
    for at in range(2, len(items), 2):
        name = rlp.decode(items[at])
        if not isinstance(name, bytes) or (last is not None and name <= last):
            raise EnrError("node record whose keys are not in order")
        pairs[name] = items[at + 1]
        last = name
    return pairs


def _key(pairs: Mapping[bytes, bytes]) -> bytes:
    if pairs.get(b"id") != rlp.encode_bytes(_IDENTITY_SCHEME):
        raise EnrError("node record of another identity scheme than v4")
    if b"secp256k1" not in pairs:
        raise EnrError("node record without a public key")
    return rlp.decode_sized(rlp.decode(pairs[b"secp256k1"]), PUBLIC_KEY_SIZE)


@dataclass(frozen=True)
class AdvertisedEndpoint:
    """The contents of our record besides our key. A port of 0 and an `ip` of None are left out."""

    chain_id: int
    ip: IpAddress | None
    udp: int
    tcp: int

    def enr_values(self) -> dict[bytes, bytes]:
        """Return the record's values by key."""
        result = {OPSTACK: OpStackEntry(self.chain_id).encode()}
        if self.ip is None:
            return result
        six = "6" if self.ip.version == 6 else ""
        result[f"ip{six}".encode()] = self.ip.packed
        for name, port in (("udp", self.udp), ("tcp", self.tcp)):
            if port:
                result[f"{name}{six}".encode()] = port.to_bytes(2, "big").lstrip(b"\0")
        return result


class LocalEnr:
    """Our record; it begins with `seq`, Unix milliseconds, or is the `former` one if that is equal."""

    def __init__(self, secret: bytes, advertised: AdvertisedEndpoint, seq: int, former: Enr | None = None) -> None:
        self._secret, self.advertised = secret, advertised
        fresh = sign_enr(secret, max(seq, former.seq + 1 if former else 0), advertised.enr_values())
        self.enr = former if former is not None and former.pairs == fresh.pairs else fresh

    def set_endpoint(self, endpoint: Endpoint) -> bool:
        """Set the endpoint where discovery reaches us; returns whether the record has changed."""
        return self.update(replace(self.advertised, ip=endpoint.ip, udp=endpoint.port))

    def update(self, advertised: AdvertisedEndpoint) -> bool:
        """Set what is advertised; returns whether the record has changed."""
        if advertised == self.advertised:
            return False
        self.advertised = advertised
        self.enr = sign_enr(self._secret, self.enr.seq + 1, advertised.enr_values())
        return True
