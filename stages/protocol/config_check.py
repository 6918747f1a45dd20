"""Checks of the rollup config in op-node's order and with its texts [CFG1 to CFG25]."""

from rollup_node.stages.protocol.config import AltDaConfig, RollupConfig
from rollup_node.stages.protocol.forks.order import fork_order_error
from rollup_node.stages.protocol.types import ZERO_ADDRESS, ZERO_HASH

KECCAK_COMMITMENT = "KeccakCommitment"
GENERIC_COMMITMENT = "GenericCommitment"
MISSING_L1_CHAIN_ID = "L1 chain ID must not be nil"
MISSING_L2_CHAIN_ID = "L2 chain ID must not be nil"


class ConfigError(ValueError):
    """The rollup config is malformed or violates a check; the text is one line."""


def check_config(config: RollupConfig) -> None:
    """Raises ConfigError for the first violated check."""
    error = (
        _parameters_error(config)
        or _genesis_error(config)
        or _addresses_error(config)
        or _chain_ids_error(config)
        or (_alt_da_error(config.alt_da) if config.alt_da is not None else None)
        or fork_order_error(config.fork_times, config.genesis.l2_time)
    )
    if error is not None:
        raise ConfigError(error)


def _first(*checks: tuple[bool, str]) -> str | None:
    """The text of the first violated check."""
    return next((text for violated, text in checks if violated), None)


def _parameters_error(config: RollupConfig) -> str | None:
    return _first(
        (config.block_time == 0, "block time cannot be 0"),
        (config.channel_timeout == 0, "channel timeout must be set, this should cover at least a L1 block time"),
        (config.seq_window_size < 2, "sequencing window size must at least be 2"),
        (config.max_sequencer_drift == 0, "maximum sequencer drift must be greater than 0"),
    )


def _genesis_error(config: RollupConfig) -> str | None:
    genesis, system = config.genesis, config.genesis.system_config
    same = "achievement get! rollup inception: L1 and L2 genesis cannot be the same"
    return _first(
        (genesis.l1.hash == ZERO_HASH, "genesis L1 hash cannot be empty"),
        (genesis.l2.hash == ZERO_HASH, "genesis L2 hash cannot be empty"),
        (genesis.l1.hash == genesis.l2.hash, same),
        (genesis.l2_time == 0, "missing L2 genesis time"),
        (system.batcher == ZERO_ADDRESS, "missing genesis system config batcher address"),
        (system.scalar == ZERO_HASH, "missing genesis system config scalar"),
        (system.gas_limit == 0, "missing genesis system config gas limit"),
    )


def _addresses_error(config: RollupConfig) -> str | None:
    return _first(
        (config.batch_inbox == ZERO_ADDRESS, "missing batch inbox address"),
        (config.deposit_contract == ZERO_ADDRESS, "missing deposit contract address"),
    )


def _chain_ids_error(config: RollupConfig) -> str | None:
    return _first(
        (config.l1_chain_id == config.l2_chain_id, "L1 and L2 chain IDs must be different"),
        (config.l1_chain_id < 1, "L1 chain ID must be non-zero and positive"),
        (config.l2_chain_id < 1, "L2 chain ID must be non-zero and positive"),
    )


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
