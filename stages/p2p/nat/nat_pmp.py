"""NAT-PMP (RFC 6886): the packets by which a router is asked for its outer address and to forward ports."""

import ipaddress
from enum import Enum
from typing import NamedTuple

PORT = 5351
_EXTERNAL_ADDRESS = 0
_RESPONSE = 0x80
_RESULT_CODES = {
    1: "the version is not supported",
    2: "not authorized",
    3: "the router has no address of its own",
    4: "out of resources",
    5: "the request is not supported",
}


class TransportProtocol(Enum):
    """What is forwarded; values as in NAT-PMP."""

    UDP = 1
    TCP = 2


class NatPmpError(ValueError):
    """Not an answer to this request, or a refusal."""


class NatPmpResultError(NatPmpError):
    """The router has understood and refuses."""


class NatPmpMapping(NamedTuple):
    """What the router forwards, for `lifetime` seconds."""

    internal_port: int
    external_port: int
    lifetime: int


def external_address_request() -> bytes:
    """Asks for the outer address."""
    return bytes((0, _EXTERNAL_ADDRESS))


def mapping_request(transport: TransportProtocol, internal: int, external: int, lifetime: int) -> bytes:
    """Asks to forward an outer port (0: any), for `lifetime` seconds (0: no longer)."""
    ports = internal.to_bytes(2, "big") + external.to_bytes(2, "big")
    return bytes((0, transport.value, 0, 0)) + ports + lifetime.to_bytes(4, "big")


def parse_external_address(answer: bytes) -> ipaddress.IPv4Address:
    """The outer address in an answer."""
    return ipaddress.IPv4Address(_body(answer, _EXTERNAL_ADDRESS, 12)[8:12])


def parse_mapping(answer: bytes, transport: TransportProtocol, internal: int) -> NatPmpMapping:
    """The mapping in an answer; it must be of this port."""
    body = _body(answer, transport.value, 16)
    found = NatPmpMapping(*(int.from_bytes(body[at:end], "big") for at, end in ((8, 10), (10, 12), (12, 16))))
    if found.internal_port != internal:
        raise NatPmpError(f"answer for port {found.internal_port} instead of {internal}")
    return found


def _body(answer: bytes, request: int, size: int) -> bytes:
    if len(answer) < 4 or answer[0] != 0 or answer[1] != _RESPONSE + request:
        raise NatPmpError("not an answer to this request")
    result = int.from_bytes(answer[2:4], "big")
    if result:
        raise NatPmpResultError(_RESULT_CODES.get(result, f"refused with code {result}"))
    if len(answer) < size:
        raise NatPmpError(f"answer of {len(answer)} bytes")
    return answer
