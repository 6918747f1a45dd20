"""Messages as bytes.

A message is two frames: a header (sender, number, place of the payload) and the payload, which is empty when it lies
in the sender's arena. Both are typed msgpack: what does not have the declared shape is rejected, and nothing
received is ever executed."""

from functools import cache
from typing import Annotated, Any, get_args

import msgspec

from rollup_node.ipc.shared_memory.arena import Descriptor

_MAX_WORD = (1 << 63) - 1
_Word = Annotated[int, msgspec.Meta(ge=0, le=_MAX_WORD)]
_DECODE_ERRORS = (ValueError, RecursionError, MemoryError, OverflowError)


class UnusableMessage(Exception):
    """A message that is dropped; `counter` is the name under which it is counted."""

    counter = "messages_refused"


class MessageRejected(UnusableMessage):
    """Malformed, or from a process that may not send on this channel."""


class StaleMessage(UnusableMessage):
    """From a process that has been replaced, or for one that has been."""

    counter = "messages_stale"


class PayloadLost(UnusableMessage):
    """Its payload is no longer in the arena, so the message counts as lost."""

    counter = "messages_void"


class Envelope(msgspec.Struct, frozen=True, array_like=True, tag="m", tag_field="kind"):
    """The header of a message with a payload.

    `number` is a status sequence, a task id, or the incarnation of the server that a request is for, 0 for its first.
    `attempt` counts the assignments of a task, `descriptor` is None for a payload in the second frame."""

    slot: _Word
    incarnation: _Word
    number: _Word
    attempt: _Word
    descriptor: Descriptor | None


class WorkerReport(msgspec.Struct, frozen=True, array_like=True, tag="r", tag_field="kind"):
    """A worker's task (None: idle, 0: another dispatcher's) and the (task, attempt) pairs it holds."""

    slot: _Word
    incarnation: _Word
    running: _Word | None
    held: Annotated[tuple[tuple[_Word, _Word], ...], msgspec.Meta(max_length=1024)]


class TaskRejected(msgspec.Struct, frozen=True, array_like=True, tag="f", tag_field="kind"):
    """A worker cannot run a task, and neither could another."""

    slot: _Word
    incarnation: _Word
    number: _Word
    reason: Annotated[str, msgspec.Meta(max_length=500)]


MessageHeader = Envelope | WorkerReport | TaskRejected

_encoder = msgspec.msgpack.Encoder()
_header_decoder: msgspec.msgpack.Decoder[MessageHeader] = msgspec.msgpack.Decoder(
    Envelope | WorkerReport | TaskRejected
)


def encode_header(header: MessageHeader) -> bytes:
    """Return the first frame."""
    return _encoder.encode(header)


def decode_header(frame: bytes) -> MessageHeader:
    """Return the header in a first frame. Raises MessageRejected when it is malformed."""
    try:
        return _header_decoder.decode(frame)
    except _DECODE_ERRORS as error:
        raise MessageRejected(f"malformed header: {error}") from None


class Codec:
    """Payloads of one direction of one channel; `union` is a Struct type or a union of them."""

    def __init__(self, union: Any) -> None:
        self._types: tuple[type, ...] = get_args(union) or (union,)
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(union)

    def encode(self, message: Any) -> bytes:
        """Return the second frame. Raises TypeError for a message the channel does not carry, a bug of the caller."""
        if type(message) not in self._types:
            names = ", ".join(kind.__name__ for kind in self._types)
            raise TypeError(f"this channel carries {names}, not {type(message).__name__}")
        return _encoder.encode(message)

    def decode(self, payload: bytes) -> Any:
        """Return the message in a payload. Raises MessageRejected when it is not one of the union."""
        try:
            return self._decoder.decode(payload)
        except _DECODE_ERRORS as error:
            raise MessageRejected(f"malformed message: {error}") from None


@cache
def codec_of(union: Any) -> Codec:
    """Return the codec of a union, made once: one that is made before a fork is shared memory."""
    return Codec(union)
