"""The manifest of a range: its start and end states, its files, and what they hold."""

from hashlib import sha256
from typing import Any, TypeVar

import msgspec

from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.errors import DECODE_ERRORS
from rollup_node.stages.protocol.types import ZERO_HASH, L2BlockRef

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


MAX_BYTES = 16 << 20
"""The largest manifest that is read, in bytes."""


Value = TypeVar("Value", bound=msgspec.Struct)
_FIELD = b',"sha256":"'


class ManifestError(ValueError):
    """A manifest that is unreadable. The text says why."""


class Block(msgspec.Struct, frozen=True):
    """A block by number and hash in hex; `hash` is None where the L2 source has no such block."""

    number: int
    hash: str | None


NO_BLOCK = Block(0, None)
"""In place of the safe head and its origin where there are no verdicts."""


class OpenChannel(msgspec.Struct, frozen=True):
    """A channel without its last frame.

    Its id in hex, the L1 block in which it was opened, the numbers of its frames, and the SHA-256 over the frames'
    data."""

    id: str
    opened: int
    frames: tuple[int, ...]
    sha256: str


class State(msgspec.Struct, frozen=True):
    """Derivation between two L1 blocks: `l1` has been read to its end.

    `safe` is the safe head with its L1 origin, `system_config` the digest of the batcher at `l1` and of the safe
    head's system config, `channels` those that are open. Without verdicts `safe` and `origin` are NO_BLOCK, and
    `system_config` is the digest of the batcher alone."""

    l1: Block
    safe: Block
    origin: Block
    system_config: str
    channels: tuple[OpenChannel, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of the state, in hex."""
        return digest_of(self)


class Resume(msgspec.Struct, frozen=True):
    """Where derivation continues without an L2 source.

    The safe head, whose hash is unknown but at genesis, with the system config that it carries; the L1 block to read
    from, by number, and the system config there."""

    safe: L2BlockRef
    config: SystemConfig
    base: int
    base_config: SystemConfig


class TableFile(msgspec.Struct, frozen=True):
    """A file of a table: its path below the output folder, rows, bytes and SHA-256 in hex."""

    path: str
    table: str
    rows: int
    size: int
    sha256: str


class ManifestRow(msgspec.Struct, frozen=True):
    """A range that is complete.

    `config` is the digest of the run's configuration. `l2_blocks` counts the L2 blocks between the safe heads of
    both states. `repaired` is the digest of the start state that did not equal the end of the range before, if the
    range was run again from there; `seconds` the time that it took, `warnings` the codes of what its processes
    warned of. `batcher` is the one at its end, in hex, where there are no verdicts for want of an L2 source; else
    None. `resume` is where the next range begins if it is derived without one."""

    config: str
    version: str
    first: int
    last: int
    start: State
    end: State
    l2_blocks: int
    files: tuple[TableFile, ...]
    seconds: float
    repaired: str | None = None
    warnings: tuple[str, ...] = ()
    batcher: str | None = None
    resume: Resume | None = None

    @property
    def has_verdicts(self) -> bool:
        """Whether batches are checked, and L2 blocks derived."""
        return self.batcher is None

    @property
    def range(self) -> L1Range:
        """The range's L1 blocks."""
        return L1Range(self.first, self.last)


def decode_manifest(data: bytes) -> ManifestRow:
    """Return the manifest in a file. Raises ManifestError for anything else, and for one that was edited."""
    if len(data) > MAX_BYTES:
        raise ManifestError(f"it has {len(data)} bytes")
    return decode_checked(data, ManifestRow)


def with_checksum(value: msgspec.Struct) -> bytes:
    """Return a value as one line of JSON, whose last field is the SHA-256 of the object without that field."""
    data = msgspec.json.encode(value)
    return data[:-1] + _checksum(data) + b"\n"


def decode_checked(data: bytes, kind: type[Value]) -> Value:
    """Return the value in a line that `with_checksum` wrote. Raises ManifestError for anything else."""
    try:
        value = msgspec.json.decode(data, type=kind)
    except DECODE_ERRORS as error:
        raise ManifestError(str(error)) from None
    body, mark, _ = data.rpartition(_FIELD)
    if not mark or body + _checksum(body + b"}") + b"\n" != data:
        raise ManifestError("its SHA-256 is not that of what stands in it")
    return value


def _checksum(data: bytes) -> bytes:
    """Return the end of a line in place of the brace at the end of these data."""
    return _FIELD + sha256(data).hexdigest().encode() + b'"}'


def genesis_resume(rollup: RollupConfig) -> Resume:
    """Where derivation begins at the chain's genesis."""
    genesis = rollup.genesis
    safe = L2BlockRef(genesis.l2.hash, genesis.l2.number, ZERO_HASH, genesis.l2_time, genesis.l1, 0)
    return Resume(safe, genesis.system_config, genesis.l1.number, genesis.system_config)
