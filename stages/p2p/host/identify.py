"""Identify messages: what peers send each other about themselves right after connecting, and again on a change (push).

Size, number of entries and the characters that may reach a log are bounded.
Source: https://github.com/libp2p/specs/blob/master/identify/README.md"""

from collections.abc import Sequence
from typing import NamedTuple

from rollup_node.stages.p2p.addresses.multiaddr import Multiaddr, decode_supported
from rollup_node.stages.p2p.encoding import protobuf

PROTOCOL = "/ipfs/id/1.0.0"
PUSH_PROTOCOL = "/ipfs/id/push/1.0.0"
PROTOCOL_VERSION = "ipfs/0.1.0"
MAX_MESSAGE_BYTES = 64 * 1024
_MAX_ADDRESSES = 64
_MAX_PROTOCOLS = 256
_MAX_TEXT_BYTES = 256
_KEY, _ADDRESSES, _PROTOCOLS, _OBSERVED, _VERSION, _AGENT = 1, 2, 3, 4, 5, 6


class IdentifyError(ValueError):
    """Not an identify message."""


class IdentifyMessage(NamedTuple):
    """A peer's description, with our address as it sees it. A push may leave fields out (None or empty)."""

    public_key: bytes | None
    listen_addresses: tuple[Multiaddr, ...]
    protocols: tuple[str, ...]
    observed_address: Multiaddr | None
    protocol_version: str | None
    agent_version: str | None


def encode(
    key: bytes, addresses: Sequence[Multiaddr], protocols: Sequence[str], observed: Multiaddr | None, agent: str
) -> bytes:
    """Encode our own message; `observed` is the receiver's address as we see it."""
    out = protobuf.bytes_field(_KEY, key)
    out += b"".join(protobuf.bytes_field(_ADDRESSES, address.encode()) for address in addresses)
    out += b"".join(protobuf.bytes_field(_PROTOCOLS, name) for name in protocols)
    if observed is not None:
        out += protobuf.bytes_field(_OBSERVED, observed.encode())
    return out + protobuf.bytes_field(_VERSION, PROTOCOL_VERSION) + protobuf.bytes_field(_AGENT, agent)


def decode(message: bytes) -> IdentifyMessage:
    """Decode a message without unsupported addresses and entries beyond the bounds. Raises IdentifyError."""
    try:
        fields = protobuf.parse(message, max_fields=1024)
        observed = fields.bytes_value(_OBSERVED)
        return IdentifyMessage(
            public_key=fields.bytes_value(_KEY),
            listen_addresses=tuple(decode_supported(fields.repeated_bytes(_ADDRESSES)[:_MAX_ADDRESSES])),
            protocols=tuple(_printable_text(raw) for raw in fields.repeated_bytes(_PROTOCOLS)[:_MAX_PROTOCOLS]),
            observed_address=next(iter(decode_supported(() if observed is None else (observed,))), None),
            protocol_version=_optional_text(fields.bytes_value(_VERSION)),
            agent_version=_optional_text(fields.bytes_value(_AGENT)),
        )
    except protobuf.ProtobufError as error:
        raise IdentifyError(f"identify: {error}") from None


def _optional_text(raw: bytes | None) -> str | None:
    return None if raw is None else _printable_text(raw)


def _printable_text(raw: bytes) -> str:
    """Text in which unprintable characters, which could disturb a terminal or a log, are replaced."""
    text = raw[:_MAX_TEXT_BYTES].decode(errors="replace")
    return "".join(character if character.isprintable() else "?" for character in text)


def merge_push(before: IdentifyMessage, push: IdentifyMessage) -> IdentifyMessage:
    """Return the message that is in force after a push: fields that the push leaves out keep their value."""
    return IdentifyMessage._make(new or old for new, old in zip(push, before, strict=True))
