"""The last stimuli of the engine core, one line each: messages, calls handed out, answers, failures, resets.

It is written to the log when a bug or a critical error ends the process, so that a report carries what led to it."""

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import msgspec

from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import BlockId, L1Block, L1BlockRef, L2BlockRef

SIZE = 1000
MAX_TEXT = 200
MAX_FRESH = 32


class StimulusLog:
    """At most SIZE lines, oldest first. Of blocks only texts are kept, from the next `settle` on [ENG44]."""

    def __init__(self) -> None:
        self._entries: deque[tuple[float, str]] = deque(maxlen=SIZE)
        self._fresh: list[tuple[float, str, tuple[object, ...]]] = []

    def __len__(self) -> int:
        self.settle()
        return len(self._entries)

    def add(self, unix: float, kind: str, *values: object) -> None:
        """Add a line: the time in Unix seconds, a word, and values as `describe` shows them."""
        self._fresh.append((unix, kind, values))
        if len(self._fresh) == MAX_FRESH:
            self.settle()

    def settle(self) -> None:
        """Make the texts of the new lines, and forget their values."""
        for unix, kind, values in self._fresh:
            self._entries.append((unix, " ".join((kind, *map(describe, values)))))
        self._fresh.clear()

    def lines(self) -> list[str]:
        self.settle()
        return [f"{unix:.6f} {text}" for unix, text in self._entries]


def describe(value: Any) -> str:
    """Return a short text of a message, call or answer: blocks by number and hash, bytes by their beginning."""
    kind = type(value)
    text = _known_texts.get(kind)
    if text is None:
        text = _known_texts[kind] = _text_of(kind)
    return text(value)


def _text_of(kind: type) -> Callable[[Any], str]:
    """Return what describes the values of a type."""
    if issubclass(kind, msgspec.Struct) and kind not in _TEXTS:
        names = kind.__struct_fields__
        return lambda value: (
            f"{kind.__name__}({' '.join([f'{name}={describe(getattr(value, name))}' for name in names])})"
        )
    return next(
        (text for known, text in _TEXTS.items() if issubclass(kind, known)), lambda value: str(value)[:MAX_TEXT]
    )


def _items(values: Sequence[object]) -> str:
    return f"[{len(values)} items]" if len(values) > 4 else f"[{', '.join(map(describe, values))}]"


_TEXTS: dict[type, Callable[[Any], str]] = {
    Enum: lambda value: str(value.value),
    str: lambda value: value[:MAX_TEXT],
    bytes: lambda value: f"0x{value[:5].hex()}",
    ExecutionPayload: lambda value: (
        f"payload({value.block_number}:0x{value.block_hash[:5].hex()} txs={len(value.transactions)})"
    ),
    PayloadAttributes: lambda value: f"attributes(time={value.timestamp} txs={len(value.transactions)})",
    L1Block: lambda value: f"l1_block({value.ref})",
    L2BlockRef: str,
    L1BlockRef: str,
    BlockId: str,
    tuple: _items,
    list: _items,
}
"""By type, the first that fits."""
_known_texts: dict[type, Callable[[Any], str]] = {}
