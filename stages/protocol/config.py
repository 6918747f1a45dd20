"""The rollup config, which holds a chain's constants (`rollup.json`), and the system config, which L1 events change."""

from functools import cached_property, lru_cache

import msgspec

from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.stages.protocol.types import ZERO_ADDRESS, ZERO_HASH, Address, BlockId, Hash


class SystemConfig(msgspec.Struct, frozen=True, array_like=True):
    """The values in force for an L2 block [SYS1]. `scalar` is the raw word; `eip1559_params` are denominator and
    elasticity, four bytes each, both zero for the chain's constants [SYS39]."""

    batcher: Address
    overhead: Hash
    scalar: Hash
    gas_limit: int
    eip1559_params: bytes = bytes(8)
    operator_fee_params: Hash = ZERO_HASH
    min_base_fee: int = 0
    da_footprint_gas_scalar: int = 0


class Genesis(msgspec.Struct, frozen=True, array_like=True):
    """The blocks at which the rollup starts; `l2_time` in seconds."""

    l1: BlockId
    l2: BlockId
    l2_time: int
    system_config: SystemConfig


class ChainOpConfig(msgspec.Struct, frozen=True, array_like=True):
    """The chain's EIP-1559 constants [ATT23]."""

    eip1559_elasticity: int
    eip1559_denominator: int
    eip1559_denominator_canyon: int | None


class AltDaConfig(msgspec.Struct, frozen=True, array_like=True):
    """Alt-DA (alternative data availability); windows in L1 blocks."""

    challenge_contract: Address | None
    commitment_type: str
    challenge_window: int
    resolve_window: int


class ForeignFork(msgspec.Struct, frozen=True, array_like=True):
    """A fork that is not of the OP Stack: L2 blocks from `time` on, in seconds, follow rules that are not known here
    [LFT1]."""

    name: str
    time: int


class UpgradeBundle(msgspec.Struct, frozen=True, array_like=True):
    """A fork's encoded upgrade transactions. `gas` is the sum of their gas and the reserved gas [UPG13]. Of a bundle,
    `sha256` is that of its file, `found` says where it is from, and `confirmed_by` which release of op-node has it, or
    that the operator chose it; empty while nothing confirms it [UPG22]."""

    transactions: tuple[bytes, ...]
    gas: int
    sha256: str = ""
    found: str = ""
    confirmed_by: str = ""


class RollupConfig(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """A chain's parameters [OPT28]. Times in seconds, windows and timeouts in L1 blocks; a fork that is absent from
    `fork_times` never activates. `dependency_set_size` is the number of chains in the dependency set [UPG19],
    `foreign_fork` the end of the rules [LFT1], `bundles` the upgrade transactions that were chosen for forks instead of
    the package's [UPG23]; none of them is part of the file."""

    genesis: Genesis
    block_time: int
    max_sequencer_drift: int
    seq_window_size: int
    channel_timeout: int
    l1_chain_id: int
    l2_chain_id: int
    fork_times: dict[str, int]
    batch_inbox: Address
    deposit_contract: Address
    l1_system_config: Address
    protocol_versions: Address = ZERO_ADDRESS
    chain_op_config: ChainOpConfig | None = None
    alt_da: AltDaConfig | None = None
    pectra_blob_schedule_time: int | None = None
    keep_karst_upgrade_gas: bool = False
    dependency_set_size: int = 1
    foreign_fork: ForeignFork | None = None
    bundles: dict[str, UpgradeBundle] = {}

    def schedule(self) -> ForkSchedule:
        """The fork table applied to this chain's times."""
        return self._schedule

    @cached_property
    def _schedule(self) -> ForkSchedule:
        times = tuple(self.fork_times.items())
        return _schedule(times, self.block_time, self.channel_timeout, self.max_sequencer_drift)

    def block_number_at(self, timestamp: int) -> int:
        """The L2 block number of a time in seconds, rounded down [CFG32]. Raises ValueError before genesis."""
        if timestamp < self.genesis.l2_time:
            raise ValueError(f"did not reach genesis time ({self.genesis.l2_time}) yet")
        return self.genesis.l2.number + (timestamp - self.genesis.l2_time) // self.block_time

    @cached_property
    def last_block(self) -> int | None:
        """The number of the last L2 block before the foreign fork; None without one [LFT2]."""
        return None if self.foreign_fork is None else self.block_number_at(self.foreign_fork.time - 1)

    def ends_at(self, number: int) -> bool:
        """Whether no block after that L2 block can be derived [LFT2]."""
        return self.last_block is not None and number >= self.last_block

    def is_foreign(self, timestamp: int) -> bool:
        """Whether an L2 block of that time, in seconds, follows a foreign fork [LFT1]."""
        return self.foreign_fork is not None and timestamp >= self.foreign_fork.time


# Configs that come in messages are equal and not identical, so the schedules are shared by their values.
@lru_cache(maxsize=32)
def _schedule(
    times: tuple[tuple[str, int], ...], block_time: int, channel_timeout: int, max_sequencer_drift: int
) -> ForkSchedule:
    return ForkSchedule(dict(times), block_time, channel_timeout, max_sequencer_drift)
