"""Generates files for `rollup-node decode`: valid, truncated, bit-flipped and mutated ones, and decompression bombs."""

import base64
import binascii
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, NamedTuple

from rollup_node.tools.batcher.channels import encode_blob
from rollup_node.tools.fuzz.bombs import BOMBS
from rollup_node.tools.fuzz.mutations import flipped, mutated, truncated
from rollup_node.tools.fuzz.targets import seeds
from rollup_node.tools.fuzz.targets.target import FuzzTarget

GOOD_PER_KIND = 30
DAMAGES = ("good", "truncated", "flipped", "mutated", "bomb")


class Input(NamedTuple):
    """An input of the command: the kind for `--as`, the files' contents in order, further flags, and the damage."""

    kind: str
    files: tuple[bytes, ...]
    flags: tuple[str, ...]
    damage: str


class Inputs:
    """A repeatable sequence of inputs.

    `largest` is the largest decompressed size of a bomb in bytes, `bombs` their number in 1,000 inputs, and `real`
    recorded files by kind."""

    def __init__(self, seed: int, largest: int, bombs: int, real: dict[str, list[bytes]]) -> None:
        self._chance = chance = Random(seed)
        self._largest, self._bombs = largest, bombs
        generators: dict[str, Callable[[Random], bytes]] = {
            "data": seeds.item,
            "frames": seeds.item,
            "channel": seeds.body,
            "batch": seeds.batch,
            "raw-span": lambda chance: seeds.span(chance)[1:],
            "blob": lambda chance: encode_blob(seeds.item(chance)[:130_044]),
        }
        self._good = {
            kind: [generate(chance) for _ in range(GOOD_PER_KIND)] + real.get(kind, [])
            for kind, generate in generators.items()
        }

    def next(self) -> Input:
        """Return the next input."""
        chance = self._chance
        if chance.randrange(1000) < self._bombs:
            return self._bomb()
        kind = chance.choice(tuple(self._good))
        damage = chance.choices(DAMAGES[:4], (1, 3, 3, 3))[0]
        count = 2 if kind in ("data", "frames", "blob") and chance.random() < 0.2 else 1
        files = tuple(self._file(kind, damage) for _ in range(count))
        return Input(kind, files, self._flags(), damage)

    def _file(self, kind: str, damage: str) -> bytes:
        chance, good = self._chance, self._good[kind]
        data = chance.choice(good)
        if damage == "truncated":
            data = truncated(chance, data)
        elif damage == "flipped":
            data = flipped(chance, data, chance.choice((1, 1, 2, 8)))
        elif damage == "mutated":
            data = mutated(chance, data, good)
        return b"0x" + data.hex().encode() if chance.random() < 0.1 else data

    def _bomb(self) -> Input:
        chance = self._chance
        kind = chance.choices(tuple(BOMBS), (8, 1, 1))[0]
        data = chance.choice(BOMBS[kind])(chance, self._largest)
        return Input(kind, (data,), self._flags(), "bomb")

    def _flags(self) -> tuple[str, ...]:
        chance, flags = self._chance, []
        if chance.random() < 0.5:
            flags += ["--chain-id", str(seeds.CHAIN_ID), "--genesis-time", str(seeds.GENESIS_TIME)]
        if chance.random() < 0.2:
            flags += ["--fork-time", f"{chance.choice(('delta', 'fjord', 'isthmus'))}={seeds.GENESIS_TIME + (1 << 20)}"]
        if chance.random() < 0.8:
            flags.append("--json")
        if chance.random() < 0.3:
            flags.append("--full")
        return tuple(flags)


def real_files(folder: Path) -> dict[str, list[bytes]]:
    """Return the recorded channels, blobs and spans in a folder of shared data, by kind."""
    channels, spans = folder / "channels", folder / "span_batch_vectors"
    bodies = [path.read_bytes() for path in sorted(channels.glob("hildr*.bin"))]
    return {
        "channel": [*bodies, (channels / "kona_batch.bin").read_bytes()],
        "data": [(channels / "magi_batcher_transactions.bin").read_bytes()],
        "raw-span": [(spans / "kona_raw_batch.bin").read_bytes()],
        "blob": [path.read_bytes() for path in sorted((folder / "op_sepolia_replay").glob("blob_*.bin"))],
    }


FOLDER = Path("tests") / "fuzz_seeds"
"""Below the root of a checkout."""

MAX_INPUT = 3000
"""Bytes of an input that is kept."""


class CorpusError(ValueError):
    """A file of inputs is malformed; the text says where."""


def read_corpus(folder: Path, target: str) -> list[bytes]:
    """Return the inputs kept for a target, none without a file. Raises CorpusError and OSError."""
    path = folder / f"{target}.txt"
    if not path.exists():
        return []
    corpus = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            corpus.append(base64.b64decode(line, validate=True))
        except (binascii.Error, ValueError):
            raise CorpusError(f"{path.name}, line {number}: not base64") from None
    return corpus


def write_corpus(folder: Path, target: str, inputs: Iterable[bytes]) -> None:
    """Write the inputs of a target, each once, the shortest first. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [base64.b64encode(data).decode() for data in sorted(set(inputs), key=lambda data: (len(data), data))]
    (folder / f"{target}.txt").write_text("".join(f"{line}\n" for line in lines))


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
    lines: set[Line] = set()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if _OWN not in name:
            return None
        last = frame.f_code.co_firstlineno

        def step(inner: FrameType, kind: str, value: Any) -> Any:
            nonlocal last
            lines.add((name, inner.f_lineno, last))
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
    return lines
