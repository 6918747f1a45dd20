"""NAT-PMP (RFC 6886): the packets that ask a gateway for its external address and for port mappings.

Source: https://www.rfc-editor.org/rfc/rfc6886"""

import ipaddress
from enum import Enum
from typing import NamedTuple

PORT = 5351
_EXTERNAL_ADDRESS = 0
EXTERNAL_ADDRESS_REQUEST = bytes((0, _EXTERNAL_ADDRESS))
_RESPONSE = 0x80
_RESULT_CODES = {
    1: "the version is not supported",
    2: "not authorized",
    3: "the gateway has no external address",
    4: "out of resources",
    5: "the request is not supported",
}


class TransportProtocol(Enum):
    """The protocol of a mapped port; values as in NAT-PMP."""

    UDP = 1
    TCP = 2


class NatPmpError(ValueError):
    """Not a response to this request, or an error result."""


class NatPmpResultError(NatPmpError):
    """The gateway's response has an error result code."""


class NatPmpMapping(NamedTuple):
    """A mapping with its lifetime in seconds."""

    external_port: int
    lifetime: int


def mapping_request(transport: TransportProtocol, internal: int, external: int, lifetime: int) -> bytes:
    """Encode the request to map an external port (0: any) for `lifetime` seconds (0: delete the mapping)."""
    ports = internal.to_bytes(2, "big") + external.to_bytes(2, "big")
    return bytes((0, transport.value, 0, 0)) + ports + lifetime.to_bytes(4, "big")


def parse_external_address(response: bytes) -> ipaddress.IPv4Address:
    """Parse the response with the external address. Raises NatPmpError."""
    return ipaddress.IPv4Address(_body(response, _EXTERNAL_ADDRESS, 12)[8:12])


def parse_mapping(response: bytes, transport: TransportProtocol, internal: int) -> NatPmpMapping:
    """Parse the response with a mapping, which must be of this port. Raises NatPmpError."""
    body = _body(response, transport.value, 16)
    internal_port, external_port = int.from_bytes(body[8:10], "big"), int.from_bytes(body[10:12], "big")
    if internal_port != internal:
        raise NatPmpError(f"response for port {internal_port} instead of {internal}")
    return NatPmpMapping(external_port, int.from_bytes(body[12:16], "big"))


def _body(response: bytes, request: int, size: int) -> bytes:
    if len(response) < 4 or response[0] != 0 or response[1] != _RESPONSE + request:
        raise NatPmpError("not a response to this request")
    result = int.from_bytes(response[2:4], "big")
    if result:
        raise NatPmpResultError(_RESULT_CODES.get(result, f"result code {result}"))
    if len(response) < size:
        raise NatPmpError(f"response of {len(response)} bytes")
    return response
