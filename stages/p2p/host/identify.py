"""Identify: what peers tell each other about themselves right after connecting, and again when it changes (push).
Bounded in size, number of entries, and in the letters of what may reach a log."""

from collections.abc import Sequence
from typing import NamedTuple

from rollup_node.stages.p2p.addresses.multiaddr import Multiaddr, MultiaddrError, decode_multiaddr, decode_supported
from rollup_node.stages.p2p.encoding import protobuf

PROTOCOL = "/ipfs/id/1.0.0"
PUSH_PROTOCOL = "/ipfs/id/push/1.0.0"
PROTOCOL_VERSION = "ipfs/0.1.0"
LONGEST = 64 * 1024
_MOST_ADDRESSES = 64
_MOST_PROTOCOLS = 256
_LONGEST_NAME = 256
_KEY, _ADDRESSES, _PROTOCOLS, _OBSERVED, _VERSION, _AGENT = 1, 2, 3, 4, 5, 6


class IdentifyError(ValueError):
    """Not an identify message."""


class IdentifyMessage(NamedTuple):
    """What a peer says of itself; `observed` is our address as it sees it. A push may leave fields out (None)."""

    key: bytes | None
    addresses: tuple[Multiaddr, ...]
    protocols: tuple[str, ...]
    observed: Multiaddr | None
    version: str | None
    agent: str | None


def encode(
    key: bytes, addresses: Sequence[Multiaddr], protocols: Sequence[str], observed: Multiaddr | None, agent: str
) -> bytes:
    """The message about ourselves; `observed` is the receiver's address as we see it."""
    out = protobuf.data(_KEY, key)
    out += b"".join(protobuf.data(_ADDRESSES, address.encode()) for address in addresses)
    out += b"".join(protobuf.data(_PROTOCOLS, name) for name in protocols)
    if observed is not None:
        out += protobuf.data(_OBSERVED, observed.encode())
    return out + protobuf.data(_VERSION, PROTOCOL_VERSION) + protobuf.data(_AGENT, agent)


def decode(message: bytes) -> IdentifyMessage:
    """Reads a message; addresses of protocols that we do not speak are left out, as is all beyond the bounds."""
    try:
        fields = protobuf.parse(message, most_fields=1024)
        return IdentifyMessage(
            key=fields.raw(_KEY),
            addresses=tuple(decode_supported(fields.all_raw(_ADDRESSES)[:_MOST_ADDRESSES])),
            protocols=tuple(_name(raw) for raw in fields.all_raw(_PROTOCOLS)[:_MOST_PROTOCOLS]),
            observed=_observed(fields.raw(_OBSERVED)),
            version=_optional_name(fields.raw(_VERSION)),
            agent=_optional_name(fields.raw(_AGENT)),
        )
    except protobuf.ProtobufError as error:
        raise IdentifyError(f"identify: {error}") from None


def _observed(raw: bytes | None) -> Multiaddr | None:
    try:
        return None if raw is None else decode_multiaddr(raw)
    except MultiaddrError:
        return None


def _optional_name(raw: bytes | None) -> str | None:
    return None if raw is None else _name(raw)


def _name(raw: bytes) -> str:
    """Text without anything that could disturb a terminal or a log."""
    text = raw[:_LONGEST_NAME].decode(errors="replace")
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def merge_push(before: IdentifyMessage, push: IdentifyMessage) -> IdentifyMessage:
    """What is known after a push: what it leaves out stays as it was."""
    return IdentifyMessage(
        key=push.key or before.key,
        addresses=push.addresses or before.addresses,
        protocols=push.protocols or before.protocols,
        observed=push.observed or before.observed,
        version=push.version or before.version,
        agent=push.agent or before.agent,
    )
