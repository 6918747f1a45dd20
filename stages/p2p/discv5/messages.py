"""The messages of discovery v5.1: a type byte, then an RLP list that begins with the request id."""

import ipaddress
from collections.abc import Callable, Iterable
from typing import NamedTuple

from rollup_node.stages.p2p.addresses.ip import IpAddress
from rollup_node.stages.protocol import rlp

MAX_RECORDS = 16
"""Records in all responses to one FINDNODE."""
MAX_DISTANCES = 32
_MAX_REQUEST_ID_BYTES = 8
_RECORDS_PER_MESSAGE = 3


class MessageError(ValueError):
    """Not a known message, or a malformed one."""


class Ping(NamedTuple):
    """PING: liveness check with the sequence number of our record."""

    request_id: bytes
    enr_seq: int


class Pong(NamedTuple):
    """PONG: the sender's sequence number, and the endpoint at which it sees us."""

    request_id: bytes
    enr_seq: int
    ip: IpAddress
    port: int


class FindNode(NamedTuple):
    """FINDNODE: requests nodes at these distances from the receiver."""

    request_id: bytes
    distances: tuple[int, ...]


class Nodes(NamedTuple):
    """NODES: encoded records, in one of `total` responses."""

    request_id: bytes
    total: int
    records: tuple[bytes, ...]


class TalkRequest(NamedTuple):
    """TALKREQ: a request of another protocol."""

    request_id: bytes
    protocol: bytes
    request: bytes


class TalkResponse(NamedTuple):
    """TALKRESP: its response, empty when the protocol is not supported."""

    request_id: bytes
    response: bytes


Discv5Request = Ping | FindNode | TalkRequest
Discv5Response = Pong | Nodes | TalkResponse
Discv5Message = Discv5Request | Discv5Response


def encode(message: Discv5Message) -> bytes:
    """Encode a message, to be encrypted."""
    kind = _KINDS[type(message)]
    return bytes((kind,)) + rlp.encode_list([rlp.encode_bytes(message.request_id), *_fields(message)])


def decode(plaintext: bytes) -> Discv5Message:
    """Decode a decrypted message. Raises MessageError."""
    if not plaintext or plaintext[0] not in _READERS:
        raise MessageError(f"message of type {plaintext[0] if plaintext else 'none'}")
    count, reader = _READERS[plaintext[0]]
    try:
        items = rlp.split(plaintext, 1)
        if len(items) != count:
            raise MessageError(f"message of {len(items)} items")
        request_id = _bytes(items[0])
        if len(request_id) > _MAX_REQUEST_ID_BYTES:
            raise MessageError("request id of more than 8 bytes")
        return reader(request_id, items[1:])
    except rlp.RlpError as error:
        raise MessageError(str(error)) from None


def nodes_messages(request_id: bytes, records: Iterable[bytes]) -> list[Nodes]:
    """Return the responses to a FINDNODE, with few enough records in each for the largest packet."""
    chosen = tuple(records)[:MAX_RECORDS]
    starts = range(0, max(len(chosen), 1), _RECORDS_PER_MESSAGE)
    return [Nodes(request_id, len(starts), chosen[at : at + _RECORDS_PER_MESSAGE]) for at in starts]


def _fields(message: Discv5Message) -> list[bytes]:
    if isinstance(message, Ping):
        return [rlp.encode_int(message.enr_seq)]
    if isinstance(message, Pong):
        address = rlp.encode_bytes(message.ip.packed)
        return [rlp.encode_int(message.enr_seq), address, rlp.encode_int(message.port)]
    if isinstance(message, FindNode):
        return [rlp.encode_list([rlp.encode_int(distance) for distance in message.distances])]
    if isinstance(message, Nodes):
        return [rlp.encode_int(message.total), rlp.encode_list(message.records)]
    if isinstance(message, TalkRequest):
        return [rlp.encode_bytes(message.protocol), rlp.encode_bytes(message.request)]
    return [rlp.encode_bytes(message.response)]


def _bytes(item: bytes) -> bytes:
    is_list, start, stop = rlp.header(item, 0, len(item))
    if is_list:
        raise MessageError("list where bytes must be")
    return item[start:stop]


def _number(item: bytes, size: int = 8) -> int:
    """Return a number; leading zeros are accepted, as other implementations do."""
    raw = _bytes(item)
    if len(raw) > size:
        raise MessageError(f"number of {len(raw)} bytes")
    return int.from_bytes(raw, "big")


def _ip(item: bytes) -> IpAddress:
    raw = _bytes(item)
    if len(raw) not in (4, 16):
        raise MessageError(f"IP address of {len(raw)} bytes")
    address = ipaddress.ip_address(raw)
    return address.ipv4_mapped or address if isinstance(address, ipaddress.IPv6Address) else address


def _distances(item: bytes) -> tuple[int, ...]:
    fromkeys = tuple(dict.fromkeys(_number(part, 2) for part in rlp.split(item)))
    if any(distance > 256 for distance in fromkeys):
        raise MessageError("distance above 256")
    return fromkeys[:MAX_DISTANCES]


_KINDS = {Ping: 1, Pong: 2, FindNode: 3, Nodes: 4, TalkRequest: 5, TalkResponse: 6}
_READERS: dict[int, tuple[int, Callable[[bytes, list[bytes]], Discv5Message]]] = {
    1: (2, lambda id, items: Ping(id, _number(items[0]))),
    2: (4, lambda id, items: Pong(id, _number(items[0]), _ip(items[1]), _number(items[2], 2))),
    3: (2, lambda id, items: FindNode(id, _distances(items[0]))),
    4: (3, lambda id, items: Nodes(id, _number(items[0]), tuple(rlp.split(items[1])[:MAX_RECORDS]))),
    5: (3, lambda id, items: TalkRequest(id, _bytes(items[0]), _bytes(items[1]))),
    6: (2, lambda id, items: TalkResponse(id, _bytes(items[0]))),
}
"""By type: the number of items, and what reads those after the request id."""
