"""The rollup config as JSON, in `rollup.json` and in `optimism_rollupConfig` [OPT28, OPT29, OPT30]."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rollup_node.stages.protocol.config import (
    MISSING_L1_CHAIN_ID,
    MISSING_L2_CHAIN_ID,
    AltDaConfig,
    ChainOpConfig,
    ConfigError,
    Genesis,
    RollupConfig,
    SystemConfig,
)
from rollup_node.stages.protocol.forks.table import TIMED_FORKS
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex_sized, short_repr, to_hex
from rollup_node.stages.protocol.types import ZERO_ADDRESS, BlockId

OLD_KEYS = {"interop_time": "lagoon_time"}
_FOREIGN = re.compile(r"\w+_time|use_(plasma|alt_da)|(plasma|da)_\w+")
"""Unknown keys by which another chain would be derived: forks of other families, and Alt-DA of old versions [OPT30]."""
U64_BITS = 64
CHAIN_ID_BITS = 256


class ParsedRollupConfig(NamedTuple):
    """The config in a rollup.json, and the paths of its unknown keys."""

    config: RollupConfig
    unknown_keys: tuple[str, ...]


class _Table:
    """A JSON object that is being read: knows its path, for errors, and which of its keys were read."""

    def __init__(self, value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise ConfigError(f"{path or 'the file'} must be a JSON object, got {_shown(value)}")
        self._values: dict[str, Any] = {key: result for key, result in value.items() if result is not None}
        self._path = path
        self._read: set[str] = set()
        self._tables: list[_Table] = []

    def path_of(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def has(self, key: str) -> bool:
        self._read.add(key)
        return key in self._values

    def is_set(self, key: str) -> bool:
        """Whether its value says something: not false, 0, or a zero address."""
        value = self._values[key]
        return bool(value.strip("0x") if isinstance(value, str) else value)

    def rename(self, old: str, new: str) -> None:
        """Read the key `old` as `new` if `new` is absent."""
        self._read.add(old)
        if old in self._values:
            self._values.setdefault(new, self._values[old])

    def table(self, key: str) -> "_Table":
        self._require(key)
        table = _Table(self._values[key], self.path_of(key))
        self._tables.append(table)
        return table

    def number(self, key: str, default: int | None = None, *, bits: int = U64_BITS) -> int:
        if default is not None and not self.has(key):
            return default
        self._require(key)
        value = self._values[key]
        # isinstance would let true pass as 1.
        if type(value) is not int or value < 0 or value >> bits:
            raise ConfigError(f"{self.path_of(key)} must be a whole number of at most {bits} bits, got {_shown(value)}")
        return value

    def data(self, key: str, size: int, default: bytes | None = None) -> bytes:
        if default is not None and not self.has(key):
            return default
        self._require(key)
        try:
            return from_hex_sized(self._values[key], size)
        except HexError as error:
            raise ConfigError(f"{self.path_of(key)}: {error}") from None

    def text(self, key: str, default: str) -> str:
        value = self._values[key] if self.has(key) else default
        if not isinstance(value, str):
            raise ConfigError(f"{self.path_of(key)} must be a text, got {_shown(value)}")
        return value

    def flag(self, key: str) -> bool:
        value = self._values[key] if self.has(key) else False
        if not isinstance(value, bool):
            raise ConfigError(f"{self.path_of(key)} must be true or false, got {_shown(value)}")
        return value

    def unknown(self) -> Iterator[str]:
        yield from (self.path_of(key) for key in self._values if key not in self._read)
        for table in self._tables:
            yield from table.unknown()

    def _require(self, key: str) -> None:
        if not self.has(key):
            raise ConfigError(f"{self.path_of(key)} is missing")


def _shown(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool | float) else short_repr(value)


def parse_rollup_config(data: bytes) -> ParsedRollupConfig:
    """Read a rollup.json of any version.

    Raises ConfigError, with the key's path, for a missing key, a malformed value, or a key that makes it another
    chain; `check_config` checks the values."""
    try:
        root = _Table(json.loads(data), "")
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"not JSON: {error}") from None
    for old, new in OLD_KEYS.items():
        root.rename(old, new)
    for key, text in (("l1_chain_id", MISSING_L1_CHAIN_ID), ("l2_chain_id", MISSING_L2_CHAIN_ID)):
        if not root.has(key):
            raise ConfigError(text)
    config = RollupConfig(
        genesis=_genesis(root.table("genesis")),
        block_time=root.number("block_time", 0),
        max_sequencer_drift=root.number("max_sequencer_drift", 0),
        seq_window_size=root.number("seq_window_size", 0),
        channel_timeout=root.number("channel_timeout", 0),
        l1_chain_id=root.number("l1_chain_id", bits=CHAIN_ID_BITS),
        l2_chain_id=root.number("l2_chain_id", bits=CHAIN_ID_BITS),
        fork_times={fork: root.number(f"{fork}_time") for fork in TIMED_FORKS if root.has(f"{fork}_time")},
        batch_inbox=root.data("batch_inbox_address", 20),
        deposit_contract=root.data("deposit_contract_address", 20),
        l1_system_config=root.data("l1_system_config_address", 20),
        protocol_versions=root.data("protocol_versions_address", 20, ZERO_ADDRESS),
        chain_op_config=_chain_op_config(root.table("chain_op_config")) if root.has("chain_op_config") else None,
        alt_da=_alt_da(root.table("alt_da")) if root.has("alt_da") else None,
        pectra_blob_schedule_time=root.number("pectra_blob_schedule_time")
        if root.has("pectra_blob_schedule_time")
        else None,
        keep_karst_upgrade_gas=root.flag("keep_karst_upgrade_gas"),
    )
    unknown = tuple(root.unknown())
    refused = [key for key in unknown if _FOREIGN.fullmatch(key) and root.is_set(key)]
    if refused:
        raise ConfigError(f"{', '.join(refused)}: this node derives no chain with such a setting")
    return ParsedRollupConfig(config, unknown)


def _genesis(table: _Table) -> Genesis:
    l1, l2, system = table.table("l1"), table.table("l2"), table.table("system_config")
    return Genesis(
        l1=BlockId(l1.number("number"), l1.data("hash", 32)),
        l2=BlockId(l2.number("number"), l2.data("hash", 32)),
        l2_time=table.number("l2_time", 0),
        system_config=SystemConfig(
            batcher=system.data("batcherAddr", 20, ZERO_ADDRESS),
            overhead=system.data("overhead", 32, bytes(32)),
            scalar=system.data("scalar", 32, bytes(32)),
            gas_limit=system.number("gasLimit", 0),
            eip1559_params=system.data("eip1559Params", 8, bytes(8)),
            operator_fee_params=system.data("operatorFeeParams", 32, bytes(32)),
            min_base_fee=system.number("minBaseFee", 0),
            da_footprint_gas_scalar=system.number("daFootprintGasScalar", 0, bits=16),
        ),
    )


def _chain_op_config(table: _Table) -> ChainOpConfig:
    optional = "eip1559DenominatorCanyon"
    return ChainOpConfig(
        eip1559_elasticity=table.number("eip1559Elasticity"),
        eip1559_denominator=table.number("eip1559Denominator"),
        eip1559_denominator_canyon=table.number(optional) if table.has(optional) else None,
    )


def _alt_da(table: _Table) -> AltDaConfig:
    contract = table.data("da_challenge_contract_address", 20, ZERO_ADDRESS)
    return AltDaConfig(
        challenge_contract=None if contract == ZERO_ADDRESS else contract,
        commitment_type=table.text("da_commitment_type", ""),
        challenge_window=table.number("da_challenge_window", 0),
        resolve_window=table.number("da_resolve_window", 0),
    )


def rollup_config_object(config: RollupConfig) -> dict[str, Any]:
    """Return the config as a JSON object with the keys in op-node's order, without those that are unset [OPT28, OPT29].

    `protocol_versions_address` is always set, as in the versions of op-node that have it."""
    genesis = config.genesis
    fields: dict[str, Any] = {
        "genesis": {
            "l1": {"hash": to_hex(genesis.l1.hash), "number": genesis.l1.number},
            "l2": {"hash": to_hex(genesis.l2.hash), "number": genesis.l2.number},
            "l2_time": genesis.l2_time,
            "system_config": system_config_object(genesis.system_config),
        },
        "block_time": config.block_time,
        "max_sequencer_drift": config.max_sequencer_drift or None,
        "seq_window_size": config.seq_window_size,
        "channel_timeout": config.channel_timeout,
        "l1_chain_id": config.l1_chain_id,
        "l2_chain_id": config.l2_chain_id,
        **{f"{fork}_time": config.fork_times.get(fork) for fork in TIMED_FORKS},
        "batch_inbox_address": to_hex(config.batch_inbox),
        "deposit_contract_address": to_hex(config.deposit_contract),
        "l1_system_config_address": to_hex(config.l1_system_config),
        "protocol_versions_address": to_hex(config.protocol_versions),
        "chain_op_config": None if config.chain_op_config is None else _chain_op_object(config.chain_op_config),
        "alt_da": None if config.alt_da is None else _alt_da_object(config.alt_da),
        "pectra_blob_schedule_time": config.pectra_blob_schedule_time,
        "keep_karst_upgrade_gas": config.keep_karst_upgrade_gas or None,
    }
    return _set_only(fields)


def system_config_object(system: SystemConfig) -> dict[str, Any]:
    """Return a system config as a JSON object, with its keys in rollup.json."""
    return {
        "batcherAddr": to_hex(system.batcher),
        "overhead": to_hex(system.overhead),
        "scalar": to_hex(system.scalar),
        "gasLimit": system.gas_limit,
        "eip1559Params": to_hex(system.eip1559_params),
        "operatorFeeParams": to_hex(system.operator_fee_params),
        "minBaseFee": system.min_base_fee,
        "daFootprintGasScalar": system.da_footprint_gas_scalar,
    }


def _set_only(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _chain_op_object(constants: ChainOpConfig) -> dict[str, Any]:
    return _set_only(
        {
            "eip1559Elasticity": constants.eip1559_elasticity,
            "eip1559Denominator": constants.eip1559_denominator,
            "eip1559DenominatorCanyon": constants.eip1559_denominator_canyon,
        }
    )


def _alt_da_object(alt_da: AltDaConfig) -> dict[str, Any]:
    return {
        "da_challenge_contract_address": to_hex(alt_da.challenge_contract or ZERO_ADDRESS),
        "da_commitment_type": alt_da.commitment_type,
        "da_challenge_window": alt_da.challenge_window,
        "da_resolve_window": alt_da.resolve_window,
    }
