"""The rollup config, which holds a chain's constants (`rollup.json`), and the system config, which L1 events change.

The checks have op-node's order and texts [CFG1 to CFG25]. A chain whose next block follows a fork that is not of the
OP Stack has an end [LFT1 to LFT5]."""

from datetime import UTC, datetime
from functools import cached_property, lru_cache

import msgspec

from rollup_node.stages.protocol.errors import NetworkLeftError
from rollup_node.stages.protocol.forks.schedule import ForkSchedule, fork_order_error
from rollup_node.stages.protocol.types import ZERO_ADDRESS, ZERO_HASH, Address, BlockId, Hash, L2BlockRef


class SystemConfig(msgspec.Struct, frozen=True, array_like=True):
    """The values in force for an L2 block [SYS1].

    `scalar` is the raw word; `eip1559_params` are denominator and elasticity, four bytes each, both zero for the
    chain's constants [SYS39]."""

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
    """A fork that is not of the OP Stack: L2 blocks from `time` (s) on follow rules not known here [LFT1]."""

    name: str
    time: int


class UpgradeBundle(msgspec.Struct, frozen=True, array_like=True):
    """A fork's encoded upgrade transactions.

    `gas` is the sum of their gas and the reserved gas [UPG13]. Of a bundle, `sha256` is that of its file, `origin` says
    where it is from, and `confirmed_by` which release of op-node has it, or that the operator chose it; empty while
    nothing confirms it [UPG22]."""

    transactions: tuple[bytes, ...]
    gas: int
    sha256: str = ""
    origin: str = ""
    confirmed_by: str = ""


class RollupConfig(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """A chain's parameters [OPT28].

    Times in seconds, windows and timeouts in L1 blocks; a fork that is absent from `fork_times` never activates.
    `dependency_set_size` is the number of chains in the dependency set [UPG19], `foreign_fork` the end of the rules
    [LFT1], `bundles` the upgrade transactions that were chosen for forks instead of the package's [UPG23]; none of them
    is part of the file."""

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
        """Return the fork table applied to this chain's times."""
        return self._schedule

    @cached_property
    def _schedule(self) -> ForkSchedule:
        times = tuple(self.fork_times.items())
        return _schedule(times, self.block_time, self.channel_timeout, self.max_sequencer_drift)

    def block_number_at(self, timestamp: int) -> int:
        """Return the L2 block number of a time in seconds, rounded down [CFG32]. Raises ValueError before genesis."""
        if timestamp < self.genesis.l2_time:
            raise ValueError(f"did not reach genesis time ({self.genesis.l2_time}) yet")
        return self.genesis.l2.number + (timestamp - self.genesis.l2_time) // self.block_time

    def timestamp_of(self, number: int) -> int:
        """Return the time of an L2 block in seconds [CFG31]."""
        return self.genesis.l2_time + (number - self.genesis.l2.number) * self.block_time

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


def utc_time(seconds: float) -> str:
    """Return a time in Unix seconds in the form 2026-05-28T18:00:00Z; the seconds beyond the calendar."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return f"{seconds} s"


def end_text(rollup: RollupConfig) -> str:
    """Where and why derivation ends; empty for a chain without a foreign fork."""
    fork = rollup.foreign_fork
    if fork is None:
        return ""
    return f"block {rollup.last_block} is the last that can be derived, {fork.name} began at {utc_time(fork.time)}"


def network_left(rollup: RollupConfig, safe: L2BlockRef) -> NetworkLeftError:
    """Return the error that ends the node at that safe head."""
    return NetworkLeftError(f"the safe head is block {safe.number}, and {end_text(rollup)}")


KECCAK_COMMITMENT = "KeccakCommitment"
GENERIC_COMMITMENT = "GenericCommitment"
MISSING_L1_CHAIN_ID = "L1 chain ID must not be nil"
MISSING_L2_CHAIN_ID = "L2 chain ID must not be nil"


class ConfigError(ValueError):
    """The rollup config is malformed or violates a check; the text is one line."""


def check_config(config: RollupConfig) -> None:
    """Raise ConfigError for the first violated check."""
    genesis, system = config.genesis, config.genesis.system_config
    same = "achievement get! rollup inception: L1 and L2 genesis cannot be the same"
    error = (
        _first(
            (config.block_time == 0, "block time cannot be 0"),
            (config.channel_timeout == 0, "channel timeout must be set, this should cover at least a L1 block time"),
            (config.seq_window_size < 2, "sequencing window size must at least be 2"),
            (config.max_sequencer_drift == 0, "maximum sequencer drift must be greater than 0"),
            (genesis.l1.hash == ZERO_HASH, "genesis L1 hash cannot be empty"),
            (genesis.l2.hash == ZERO_HASH, "genesis L2 hash cannot be empty"),
            (genesis.l1.hash == genesis.l2.hash, same),
            (genesis.l2_time == 0, "missing L2 genesis time"),
            (system.batcher == ZERO_ADDRESS, "missing genesis system config batcher address"),
            (system.scalar == ZERO_HASH, "missing genesis system config scalar"),
            (system.gas_limit == 0, "missing genesis system config gas limit"),
            (config.batch_inbox == ZERO_ADDRESS, "missing batch inbox address"),
            (config.deposit_contract == ZERO_ADDRESS, "missing deposit contract address"),
            (config.l1_chain_id == config.l2_chain_id, "L1 and L2 chain IDs must be different"),
            (config.l1_chain_id < 1, "L1 chain ID must be non-zero and positive"),
            (config.l2_chain_id < 1, "L2 chain ID must be non-zero and positive"),
        )
        or (_alt_da_error(config.alt_da) if config.alt_da is not None else None)
        or fork_order_error(config.fork_times, config.genesis.l2_time)
    )
    if error is not None:
        raise ConfigError(error)


def _first(*checks: tuple[bool, str]) -> str | None:
    return next((text for violated, text in checks if violated), None)


def _alt_da_error(alt_da: AltDaConfig) -> str | None:
    kind = alt_da.commitment_type
    has_contract = alt_da.challenge_contract not in (None, ZERO_ADDRESS)
    return _first(
        (kind not in (KECCAK_COMMITMENT, GENERIC_COMMITMENT), f"invalid commitment type: {kind}"),
        (
            kind == KECCAK_COMMITMENT and not has_contract,
            "Must set da_challenge_contract_address for keccak commitments",
        ),
        (
            kind == GENERIC_COMMITMENT and has_contract,
            "Must set empty da_challenge_contract_address for generic commitments",
        ),
    )
