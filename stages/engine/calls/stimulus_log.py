"""The last stimuli of the engine core, one line each: messages, calls handed out, answers, failures, resets.

It is written to the log when a bug or a critical error ends the process, so that a report carries what led to it."""

from collections import deque
from enum import Enum

import msgspec

from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import BlockId, L1Block, L1BlockRef, L2BlockRef

SIZE = 1000
MAX_TEXT = 200


class StimulusLog:
    """At most SIZE lines, oldest first. Only texts are kept, never the blocks that they describe."""

    def __init__(self, size: int = SIZE) -> None:
        self._entries: deque[tuple[float, str]] = deque(maxlen=size)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, unix: float, kind: str, *values: object) -> None:
        """Add a line: the time in Unix seconds, a word, and values as `describe` shows them."""
        self._entries.append((unix, " ".join((kind, *map(describe, values)))))

    def lines(self) -> list[str]:
        return [f"{unix:.6f} {text}" for unix, text in self._entries]


def describe(value: object) -> str:
    """Return a short text of a message, call or answer: blocks by number and hash, bytes by their beginning."""
    match value:
        case str():
            return value[:MAX_TEXT]
        case bytes():
            return f"0x{value[:5].hex()}"
        case ExecutionPayload():
            return f"payload({value.block_number}:0x{value.block_hash[:5].hex()} txs={len(value.transactions)})"
        case PayloadAttributes():
            return f"attributes(time={value.timestamp} txs={len(value.transactions)})"
        case L1Block():
            return f"l1_block({value.ref})"
        case L2BlockRef() | L1BlockRef() | BlockId():
            return str(value)
        case Enum():
            return str(value.value)
        case msgspec.Struct():
            fields = (f"{name}={describe(getattr(value, name))}" for name in value.__struct_fields__)
            return f"{type(value).__name__}({' '.join(fields)})"
        case tuple() | list() if len(value) > 4:
            return f"[{len(value)} items]"
        case tuple() | list():
            return f"[{', '.join(map(describe, value))}]"
    return str(value)[:MAX_TEXT]
