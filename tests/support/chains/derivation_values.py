"""The values of the derivation model: L1 and L2 blocks, frames, channels and batches, and a chain's constants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

ORDER = (
    *("regolith", "canyon", "delta", "ecotone", "fjord", "granite", "holocene"),
    *("isthmus", "jovian", "karst", "lagoon"),
)
EMPTY_AT_ACTIVATION = ("jovian", "karst", "lagoon")


@dataclass(frozen=True)
class ModelFrame:
    channel: bytes
    number: int
    piece: bytes
    is_last: bool


@dataclass(frozen=True)
class ModelSingular:
    """A singular batch."""

    time: int
    parent_hash: bytes
    epoch: int
    epoch_hash: bytes
    txs: tuple[bytes, ...]


@dataclass(frozen=True)
class ModelSpan:
    """A span batch: the epochs and transactions of its blocks, the first at `time`.

    `filled`: its last transaction is a post-exec one with a gas limit."""

    time: int
    parent_check: bytes
    origin_check: bytes
    epochs: tuple[int, ...]
    txs: tuple[tuple[bytes, ...], ...]
    filled: bool = False


@dataclass(frozen=True)
class ModelL1:
    """An L1 block; `items` are senders with the frames in their data, None for data that has none."""

    number: int
    hash: bytes
    parent_hash: bytes
    time: int
    items: tuple[tuple[bytes, tuple[ModelFrame, ...] | None], ...] = ()
    batcher: bytes | None = None
    gas_limit: int | None = None
    deposits: int = 0


@dataclass(frozen=True)
class ModelL2:
    """An L2 block; `users` are its transactions but deposits."""

    hash: bytes
    number: int
    time: int
    epoch: int
    epoch_hash: bytes
    sequence: int
    users: tuple[bytes, ...]


@dataclass(frozen=True)
class ModelBlock:
    """A block that was derived: at which L1 block, whether it concluded its batch, its gas limit (without what upgrades
    add) and number of user deposits."""

    block: ModelL2
    origin: int
    concluding: bool
    gas_limit: int
    deposits: int


@dataclass(frozen=True)
class ModelChannel:
    """What the body of a channel holds."""

    brotli: bool
    batches: tuple[ModelSingular | ModelSpan, ...]


@dataclass(frozen=True)
class ModelRollup:
    """A rollup's constants, and what the test provides: channel contents, block hashes, invalid transactions."""

    forks: Mapping[str, int]
    block_time: int
    window: int
    drift: int
    timeout: int
    first_l1: int
    batcher: bytes
    gas_limit: int
    channels: Mapping[bytes, ModelChannel]
    hash_of: Callable[[ModelL2, int, int, bytes, tuple[bytes, ...]], bytes]
    is_invalid: Callable[[tuple[bytes, ...]], bool]

    def active(self, fork: str, time: int) -> bool:
        return fork in self.forks and self.forks[fork] <= time

    def activating(self, time: int) -> list[str]:
        """Return the forks whose activation block has this time [FK2]."""
        before = time - self.block_time
        return [fork for fork in ORDER if self.active(fork, time) and before >= 0 and not self.active(fork, before)]

    def channel_timeout(self, time: int) -> int:
        return 50 if self.active("granite", time) else self.timeout

    def max_drift(self, time: int) -> int:
        return 1800 if self.active("fjord", time) else self.drift
