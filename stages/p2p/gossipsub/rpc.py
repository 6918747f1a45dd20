"""Gossipsub's RPC messages, as protobuf.

The number of fields and the size of ids are bounded over the whole RPC. A message with fields that StrictNoSign forbids
is marked as signed [GSP4].
Source: https://github.com/libp2p/specs/blob/master/pubsub/README.md and gossipsub/gossipsub-v1.2.md beside it"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rollup_node.stages.p2p.encoding import protobuf, varint
from rollup_node.stages.p2p.encoding.protobuf import Fields, ProtobufError, bytes_field, varint_field

MAX_FIELDS = 12_000
"""Two full IHAVE, and more than nodes of one chain ever send in one RPC; parsing this many fields takes a while."""
MAX_MESSAGE_FIELDS = 64
MAX_ID_BYTES = 64
_SUBSCRIPTIONS, _PUBLISH, _CONTROL = 1, 2, 3
_SUBSCRIBE, _SUBSCRIBED_TOPIC = 1, 2
_FROM, _DATA, _SEQUENCE, _TOPIC, _SIGNATURE, _KEY = range(1, 7)
_IHAVE, _IWANT, _GRAFT, _PRUNE, _IDONTWANT = range(1, 6)
_CONTROL_TOPIC, _IHAVE_IDS, _IDS, _PRUNE_BACKOFF = 1, 2, 1, 3


class RpcDecodeError(ValueError):
    """Not a gossipsub RPC."""


class Subscription(NamedTuple):
    """A peer joins (`subscribe`) or leaves a topic."""

    topic: str
    subscribe: bool


class PubsubMessage(NamedTuple):
    """A published message; `is_signed` if it carries any field that StrictNoSign forbids."""

    topic: str
    data: bytes
    is_signed: bool = False


class IHave(NamedTuple):
    """IHAVE: ids of messages that can be requested."""

    topic: str
    ids: Sequence[bytes]


class Prune(NamedTuple):
    """PRUNE: the receiver is no longer in the sender's mesh; `backoff` in seconds, None when the peer names none."""

    topic: str
    backoff: int | None = None


class ControlMessage(NamedTuple):
    """The control part. `graft` holds topics, `iwant` and `idontwant` message ids."""

    ihave: Sequence[IHave] = ()
    iwant: Sequence[bytes] = ()
    graft: Sequence[str] = ()
    prune: Sequence[Prune] = ()
    idontwant: Sequence[bytes] = ()


class Rpc(NamedTuple):
    """One RPC."""

    subscriptions: Sequence[Subscription] = ()
    messages: Sequence[PubsubMessage] = ()
    control: ControlMessage = ControlMessage()


def encode_frame(rpc: Rpc) -> bytes:
    """Encode an RPC with its length prefix, as it is written to a stream."""
    body = encode_rpc(rpc)
    return varint.encode(len(body)) + body


def encode_rpc(rpc: Rpc) -> bytes:
    """Encode an RPC without its length prefix."""
    parts = [
        bytes_field(_SUBSCRIPTIONS, varint_field(_SUBSCRIBE, subscribe) + bytes_field(_SUBSCRIBED_TOPIC, topic))
        for topic, subscribe in rpc.subscriptions
    ]
    for message in rpc.messages:
        parts.append(bytes_field(_PUBLISH, bytes_field(_DATA, message.data) + bytes_field(_TOPIC, message.topic)))
    if any(rpc.control):
        parts.append(bytes_field(_CONTROL, _encode_control(rpc.control)))
    return b"".join(parts)


def _encode_control(control: ControlMessage) -> bytes:
    parts = [
        bytes_field(_IHAVE, bytes_field(_CONTROL_TOPIC, topic) + _encode_ids(_IHAVE_IDS, ids))
        for topic, ids in control.ihave
    ]
    if control.iwant:
        parts.append(bytes_field(_IWANT, _encode_ids(_IDS, control.iwant)))
    parts += [bytes_field(_GRAFT, bytes_field(_CONTROL_TOPIC, topic)) for topic in control.graft]
    for prune in control.prune:
        backoff = b"" if prune.backoff is None else varint_field(_PRUNE_BACKOFF, prune.backoff)
        parts.append(bytes_field(_PRUNE, bytes_field(_CONTROL_TOPIC, prune.topic) + backoff))
    if control.idontwant:
        parts.append(bytes_field(_IDONTWANT, _encode_ids(_IDS, control.idontwant)))
    return b"".join(parts)


def _encode_ids(field: int, ids: Iterable[bytes]) -> bytes:
    return b"".join(bytes_field(field, id_) for id_ in ids)


def decode_rpc(raw: bytes) -> Rpc:
    """Decode an RPC without its length prefix. Raises RpcDecodeError."""
    try:
        return _Reader().rpc(raw)
    except ProtobufError as error:
        raise RpcDecodeError(str(error)) from None


class _Reader:
    """Decodes one RPC; all its parts together have at most MAX_FIELDS fields."""

    def __init__(self) -> None:
        self._left = MAX_FIELDS

    def rpc(self, raw: bytes) -> Rpc:
        fields = self._fields(memoryview(raw))
        subscriptions = tuple([self._subscription(item) for item in self._all(fields, _SUBSCRIPTIONS)])
        messages = tuple([self._message(repeated_view) for repeated_view in fields.repeated_views(_PUBLISH)])
        return Rpc(subscriptions, messages, self._control(self._all(fields, _CONTROL)))

    def _fields(self, view: memoryview) -> Fields:
        fields = protobuf.parse(view, self._left)
        self._left -= len(fields)
        return fields

    def _all(self, fields: Fields, number: int) -> Iterator[Fields]:
        return map(self._fields, fields.repeated_views(number))

    def _subscription(self, fields: Fields) -> Subscription:
        return Subscription(_topic(fields, _SUBSCRIBED_TOPIC), bool(fields.varint(_SUBSCRIBE)))

    def _message(self, view: memoryview) -> PubsubMessage:
        """Return a message of which only the first fields are read, as anyone can append some to forwarded ones."""
        if self._left <= 0:
            raise RpcDecodeError(f"more than {MAX_FIELDS} fields")
        fields = protobuf.parse_prefix(view, MAX_MESSAGE_FIELDS)
        self._left -= len(fields)
        authored = any(number in fields for number in (_FROM, _SEQUENCE, _SIGNATURE, _KEY))
        return PubsubMessage(_topic(fields, _TOPIC), fields.bytes_value(_DATA) or b"", authored)

    def _control(self, controls: Iterator[Fields]) -> ControlMessage:
        """Merge repeated control parts, as protobuf does with embedded messages."""
        ihave: list[IHave] = []
        iwant: list[bytes] = []
        graft: list[str] = []
        prune: list[Prune] = []
        idontwant: list[bytes] = []
        for fields in controls:
            ihave += [IHave(_topic(item), _ids(item, _IHAVE_IDS)) for item in self._all(fields, _IHAVE)]
            for item in self._all(fields, _IWANT):
                iwant += _ids(item, _IDS)
            graft += [_topic(item) for item in self._all(fields, _GRAFT)]
            prune += [Prune(_topic(item), item.varint(_PRUNE_BACKOFF)) for item in self._all(fields, _PRUNE)]
            for item in self._all(fields, _IDONTWANT):
                idontwant += _ids(item, _IDS)
        return ControlMessage(ihave, iwant, graft, prune, idontwant)


def _topic(fields: Fields, number: int = _CONTROL_TOPIC) -> str:
    """Return the topic's name; one that is missing or not UTF-8 becomes a name that no node has joined."""
    return (fields.bytes_value(number) or b"").decode(errors="replace")


def _ids(fields: Fields, number: int) -> list[bytes]:
    ids = fields.repeated_bytes(number)
    if any(len(id_) > MAX_ID_BYTES for id_ in ids):
        raise RpcDecodeError(f"a message id of more than {MAX_ID_BYTES} bytes")
    return ids
