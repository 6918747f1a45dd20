"""The choice of the inputs that the repository keeps: those that reach lines of code which no shorter one reaches."""

import sys
from collections.abc import Sequence
from random import Random
from types import FrameType
from typing import Any

from rollup_node.tools.fuzz.corpus import MAX_INPUT
from rollup_node.tools.fuzz.mutations import mutated
from rollup_node.tools.fuzz.targets.target import FuzzTarget

MAX_CHOSEN = 16
"""Inputs chosen for a target, besides those kept from before."""
MAX_BYTES = 6_000
"""Bytes of all chosen inputs of a target; the last one may exceed it."""
GENERATED = 30
_OWN = "rollup_node"

Line = tuple[str, int, int]
"""File, line, and the line before it in the same function."""


def chosen_seeds(name: str, target: FuzzTarget, kept: Sequence[bytes], count: int) -> list[bytes]:
    """Return `count` inputs that reach most steps from line to line, and all that were kept before.

    They are chosen among valid and mutated ones. The same name and inputs give the same choice."""
    chance = Random(name)
    pool = [*kept, *(target.seed(chance) for _ in range(GENERATED))]
    tried = [data for data in (*pool, *_mutations(chance, target, pool, count)) if len(data) <= MAX_INPUT]
    reached = {data: _lines(target, data) for data in dict.fromkeys(tried)}
    chosen, covered = list(dict.fromkeys(kept)), set[Line]()
    for data in chosen:
        covered |= reached.get(data, set())
    ordered = sorted(reached, key=lambda data: (len(data), data))
    for _ in range(MAX_CHOSEN):
        best = max(ordered, key=lambda data: len(reached[data] - covered), default=b"")
        if not ordered or not reached[best] - covered or sum(map(len, chosen)) > max(MAX_BYTES, sum(map(len, kept))):
            break
        chosen.append(best)
        covered |= reached[best]
    return chosen


def _mutations(chance: Random, target: FuzzTarget, pool: Sequence[bytes], count: int) -> list[bytes]:
    return [mutated(chance, chance.choice(pool), pool, target.tokens) for _ in range(count)]


def _lines(target: FuzzTarget, data: bytes) -> set[Line]:
    """Return the steps from line to line that an input takes in the node's own code."""
    found: set[Line] = set()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if _OWN not in name:
            return None
        last = frame.f_code.co_firstlineno

        def step(inner: FrameType, kind: str, value: Any) -> Any:
            nonlocal last
            found.add((name, inner.f_lineno, last))
            last = inner.f_lineno
            return step

        return step

    sys.settrace(trace)
    try:
        target.run(data)
    except Exception:
        pass
    finally:
        sys.settrace(None)
    return found
