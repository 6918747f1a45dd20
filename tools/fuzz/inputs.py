"""Generates files for `rollup-node decode`: valid, truncated, bit-flipped and mutated ones, and decompression bombs."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

from rollup_node.tools.batcher.channels import encode_blob
from rollup_node.tools.fuzz.bombs import BOMBS
from rollup_node.tools.fuzz.mutations import flipped, mutated, truncated
from rollup_node.tools.fuzz.targets import seeds

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
