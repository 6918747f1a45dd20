"""The values of the derivation model: L1 and L2 blocks, channels and batches, and what the test provides."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.tools.batcher.batches import BatchBlock
from rollup_node.tools.batcher.channels import Frame
from tests.conformance.kit.planning import Planned

ORDER = (
    *("regolith", "canyon", "delta", "ecotone", "fjord", "granite", "holocene"),
    *("isthmus", "jovian", "karst", "lagoon"),
)
EMPTY_AT_ACTIVATION = ("jovian", "karst", "lagoon")


@dataclass(frozen=True)
class ModelSpan:
    """A span batch: the epochs and transactions of its blocks, the first at `timestamp`.

    `filled`: its last transaction is a post-exec one with a gas limit."""

    timestamp: int
    parent_check: bytes
    origin_check: bytes
    epochs: tuple[int, ...]
    transactions: tuple[tuple[bytes, ...], ...]
    filled: bool = False


@dataclass(frozen=True)
class ModelL1:
    """An L1 block; `items` are senders with the frames in their data, None for data that has none."""

    number: int
    hash: bytes
    parent_hash: bytes
    time: int
    items: tuple[tuple[bytes, tuple[Frame, ...] | None], ...] = ()
    batcher: bytes | None = None
    gas_limit: int | None = None
    deposits: int = 0


@dataclass(frozen=True)
class ModelBlock:
    """A block that was derived: at which L1 block, whether it concluded its batch, its gas limit (without what upgrades
    add) and number of user deposits."""

    block: Planned
    origin: int
    concluding: bool
    gas_limit: int
    deposits: int


@dataclass(frozen=True)
class ModelChannel:
    """What the body of a channel holds."""

    brotli: bool
    batches: tuple[BatchBlock | ModelSpan, ...]


@dataclass(frozen=True)
class ModelRollup:
    """A rollup's constants, and what the test provides: channel contents and invalid transactions."""

    config: RollupConfig
    channels: Mapping[bytes, ModelChannel]
    is_invalid: Callable[[tuple[bytes, ...]], bool]

    @property
    def first_l1(self) -> int:
        return self.config.genesis.l1.number

    def active(self, fork: str, time: int) -> bool:
        return fork in self.config.fork_times and self.config.fork_times[fork] <= time

    def activating(self, time: int) -> list[str]:
        """Return the forks whose activation block has this time [FK2]."""
        before = time - self.config.block_time
        return [fork for fork in ORDER if self.active(fork, time) and before >= 0 and not self.active(fork, before)]

    def channel_timeout(self, time: int) -> int:
        return 50 if self.active("granite", time) else self.config.channel_timeout

    def max_drift(self, time: int) -> int:
        return 1800 if self.active("fjord", time) else self.config.max_sequencer_drift
