"""Messages between the processes of a node, and descriptors of shared memory in them.

As another process of the same user could send them to a socket."""

from functools import cache
from random import Random
from typing import Any, get_args

import msgspec

from rollup_node.ipc.shared_memory.arena import Arena
from rollup_node.ipc.wire.codec import (
    Codec,
    Envelope,
    MessageRejected,
    TaskRejected,
    WorkerReport,
    decode_header,
    encode_header,
)
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.tasks import DecodeChannel, run
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.fuzz.targets import seeds
from rollup_node.tools.fuzz.targets.target import FuzzTarget

RULES = SpanRules(seeds.CHAIN_ID, seeds.GENESIS_TIME, seeds.BLOCK_TIME)
UNIONS = [union for channel in CHANNELS for union in (channel.up, channel.down) if union is not None]
CODECS = [Codec(union) for union in UNIONS]
KINDS: list[tuple[type[msgspec.Struct], ...]] = [get_args(union) or (union,) for union in UNIONS]
"""The types of messages of each codec."""


def header(data: bytes) -> object:
    """Return the header of a message.

    What is read encodes to one that is read as the same, and its descriptor is either void or one of a value in the
    arena."""
    result = decode_header(data)
    assert decode_header(encode_header(result)) == result
    if isinstance(result, Envelope) and result.descriptor is not None:
        arena, value = _arena()
        read = arena.get(result.descriptor)
        arena.ack(0, result.descriptor)
        assert read is None or value.startswith(read) or read in value * len(result.descriptor.chunks)
        return "void" if read is None else "value"
    return type(result).__name__


def payload(data: bytes) -> object:
    """Return the payload of a message on each channel, one of which the first byte chooses."""
    codec = CODECS[data[0] % len(CODECS)] if data else CODECS[0]
    result = codec.decode(data[1:])
    assert codec.decode(codec.encode(result)) == result
    return type(result).__name__


@cache
def _arena() -> tuple[Arena, bytes]:
    """Return an arena with one value of two chunks."""
    arena = Arena(2, chunks=4, chunk_bytes=4096)
    arena.take_over(1)
    value = bytes(range(256)) * 20
    stored = arena.put(value, 1)
    assert stored is not None
    _STORED.append(stored)
    return arena, value


_STORED: list[Any] = []


def _header(chance: Random) -> bytes:
    _arena()
    held = tuple((chance.randrange(9), 1) for _ in range(chance.randrange(4)))
    return encode_header(
        chance.choice(
            (
                Envelope(chance.randrange(9), 1, chance.randrange(1 << 40), 1, _STORED[0]),
                Envelope(1, 2, 3, 4, None),
                WorkerReport(1, 2, 0, held),
                TaskRejected(1, 2, 3, "reason"),
            )
        )
    )


def _payload(chance: Random) -> bytes:
    """Return a message of every channel is reached by mutation of its tag; the valid ones are those of work."""
    task = DecodeChannel(seeds.body(chance), 1_000_000, True, RULES)
    number = next(index for index, kinds in enumerate(KINDS) if DecodeChannel in kinds)
    if chance.random() < 0.5:
        return bytes((number,)) + msgspec.msgpack.encode(task)
    if chance.random() < 0.5:
        return bytes((number - 1,)) + msgspec.msgpack.encode(run(task))
    kind = chance.randrange(len(CODECS))
    name = chance.choice(KINDS[kind]).__struct_config__.tag
    return bytes((kind,)) + msgspec.msgpack.encode([name, *chance.choice(_FIELDS)])


_FIELDS: tuple[tuple[object, ...], ...] = ((), (1,), (1, 2), (1, bytes(32), 5), (1, bytes(32), bytes(32), ()))
PROCESS = "a process of the node's user"
TARGETS = {
    "ipc-header": FuzzTarget(PROCESS, header, _header, (MessageRejected,)),
    "ipc-payload": FuzzTarget(PROCESS, payload, _payload, (MessageRejected,)),
}
"""The targets by name."""
