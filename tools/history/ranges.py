"""The plan of a history: ranges of L1 blocks, and the digest of the configuration that their tables depend on."""

from hashlib import sha256
from typing import Any

import msgspec

from rollup_node.stages.protocol.config import RollupConfig

DEFAULT_SIZE = 7_200
"""L1 blocks of a range, about a day."""
MAX_RANGES = 1_000_000
NO_SOURCE = "none"
TABLES_VERSION = 1
"""Raised with every change of the tables' columns or of what stands in them."""


class L1Range(msgspec.Struct, frozen=True, order=True):
    """L1 blocks `first` to `last`, both included."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """What the range's files are called.

        It depends on the first block only, so that a longer range replaces a shorter one."""
        return f"range-{self.first:012d}"

    @property
    def blocks(self) -> int:
        """How many L1 blocks the range has."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"{self.first} to {self.last}"


def plan_ranges(first: int, last: int, size: int = DEFAULT_SIZE) -> tuple[L1Range, ...]:
    """Return the ranges of `size` blocks from `first` on, the last one cut at `last`.

    Raises ValueError as check_plan."""
    check_plan(first, last, size)
    return tuple(L1Range(at, min(at + size - 1, last)) for at in range(first, last + 1, size))


def check_plan(first: int, last: int, size: int) -> None:
    """Raise ValueError for an empty plan, a negative block, a size below 1, and more than a million ranges."""
    if size < 1:
        raise ValueError(f"a range of {size} L1 blocks is empty")
    if first < 0:
        raise ValueError(f"L1 block {first} is negative")
    if last < first:
        raise ValueError(f"L1 block {last} is before {first}")
    if (last - first) // size >= MAX_RANGES:
        raise ValueError(f"L1 blocks {first} to {last} are more than {MAX_RANGES} ranges of {size}")


class RunConfig(msgspec.Struct, frozen=True):
    """What the tables of a run depend on.

    Ranges of the same configuration fit together. `rollup` is the digest of the chain's configuration, `source`
    "engine", "file" or "none", `in_order` whether each range starts from the end of the one before instead of a
    block of the L2 source; `safe_head` is the block that the first range begins with, None for the one that its
    warm-up gives. `batcher` is that of the first block in hex, None for the one of the chain's genesis."""

    version: str
    tables: int
    rollup: str
    first: int
    size: int
    warmup: int
    form: str
    source: str
    in_order: bool
    safe_head: int | None = None
    batcher: str | None = None

    @property
    def has_verdicts(self) -> bool:
        """Whether batches are checked, and L2 blocks derived."""
        return self.source != NO_SOURCE or self.in_order

    @property
    def is_assumed(self) -> bool:
        """Whether the parents of batches are those that they claim, for want of an L2 source."""
        return self.source == NO_SOURCE and self.in_order

    @property
    def digest(self) -> str:
        """SHA-256 of the configuration, in hex."""
        return digest_of(self)


def rollup_digest(config: RollupConfig) -> str:
    """SHA-256 of a chain's configuration, in hex."""
    return digest_of(config)


def digest_of(value: Any) -> str:
    """SHA-256 of a value's canonical msgpack encoding, in hex."""
    return sha256(msgspec.msgpack.encode(value, order="sorted")).hexdigest()


def default_warmup(config: RollupConfig, timestamp: int) -> int:
    """Return the L1 blocks to read before a range whose first block has this time: one channel timeout."""
    return config.schedule().l1(timestamp).channel_timeout
