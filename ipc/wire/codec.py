"""Messages as bytes. A message is two frames: an envelope (who sends, which number, where the payload lies) and the
payload, which is empty when it lies in the sender's arena. Both are typed msgpack: what does not have the declared
shape is refused, and nothing received is ever executed."""

from typing import Annotated, Any, get_args

import msgspec

from rollup_node.ipc.shared_memory.arena import Descriptor

_MAX_WORD = (1 << 63) - 1
_Word = Annotated[int, msgspec.Meta(ge=0, le=_MAX_WORD)]
_BAD_BYTES = (ValueError, RecursionError, MemoryError, OverflowError)


class UnusableMessage(Exception):
    """A message that is not taken; `counter` names what is counted."""

    counter = "messages_refused"


class MessageRejected(UnusableMessage):
    """Malformed, or from somebody who has no business on this channel."""


class StaleMessage(UnusableMessage):
    """From a process that has been replaced, or for a dispatcher that has been."""

    counter = "messages_stale"


class PayloadLost(UnusableMessage):
    """Its payload is no longer in the arena: a lost message."""

    counter = "messages_void"


class Envelope(msgspec.Struct, frozen=True, array_like=True, tag="m", tag_field="kind"):
    """The head of every message with a payload.

    `number` is a status sequence or a task id; `attempt` says how often that task has been given out."""

    row: _Word
    incarnation: _Word
    number: _Word
    attempt: _Word
    descriptor: Descriptor | None


class Report(msgspec.Struct, frozen=True, array_like=True, tag="r", tag_field="kind"):
    """A worker's whole state towards one dispatcher: the (task, attempt) pairs in its hands, and the task it runs:
    None when idle, 0 when it runs another dispatcher's."""

    row: _Word
    incarnation: _Word
    running: _Word | None
    holds: Annotated[tuple[tuple[_Word, _Word], ...], msgspec.Meta(max_length=1024)]


class Failure(msgspec.Struct, frozen=True, array_like=True, tag="f", tag_field="kind"):
    """A worker cannot run a task, and no other could."""

    row: _Word
    incarnation: _Word
    number: _Word
    reason: Annotated[str, msgspec.Meta(max_length=500)]


Head = Envelope | Report | Failure

_encoder = msgspec.msgpack.Encoder()
_head_decoder: msgspec.msgpack.Decoder[Head] = msgspec.msgpack.Decoder(Envelope | Report | Failure)


def encode_head(head: Head) -> bytes:
    """The first frame."""
    return _encoder.encode(head)


def decode_head(frame: bytes) -> Head:
    """Reads a first frame; MessageRejected when it is none."""
    try:
        return _head_decoder.decode(frame)
    except _BAD_BYTES as error:
        raise MessageRejected(f"malformed envelope: {error}") from None


class Codec:
    """Payloads of one direction of one channel; `union` is a Struct type or a union of them."""

    def __init__(self, union: Any) -> None:
        self._types: tuple[type, ...] = get_args(union) or (union,)
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(union)

    def encode(self, message: Any) -> bytes:
        """The second frame; TypeError when the channel does not carry such a message (a bug of the caller)."""
        if type(message) not in self._types:
            names = ", ".join(kind.__name__ for kind in self._types)
            raise TypeError(f"{type(message).__name__} does not travel on this channel (only {names})")
        return _encoder.encode(message)

    def decode(self, payload: bytes) -> Any:
        """Reads a payload; MessageRejected when it is not a message of the union."""
        try:
            return self._decoder.decode(payload)
        except _BAD_BYTES as error:
            raise MessageRejected(f"malformed message: {error}") from None
