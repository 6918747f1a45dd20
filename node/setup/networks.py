"""The built-in networks: every chain of the superchain registry, and what was published since [OPT22, OPT81]."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from rollup_node.node.options.errors import OptionError, did_you_mean, shown
from rollup_node.stages.protocol.config import (
    AltDaConfig,
    ChainOpConfig,
    ForeignFork,
    Genesis,
    RollupConfig,
    SystemConfig,
)
from rollup_node.stages.protocol.hex_encoding import address_from_hex, hash_from_hex
from rollup_node.stages.protocol.types import ZERO_ADDRESS, BlockId


class Departure(NamedTuple):
    """The first fork that is not of the OP Stack and changes derivation.

    Its name, the time in seconds from which L2 blocks follow it, and where both are published. `engine_forks` are
    the times of earlier ones, which only the engine has to know [LFT10]."""

    fork: str
    time: int
    source: str
    engine_forks: Mapping[str, int] = {}


_DENIM = "docs.base.org/base-chain/specs/upgrades/denim/overview"
_AZUL = "docs.base.org/upgrades/azul/node-upgrade"

LEFT: dict[str, Departure] = {
    "base-mainnet": Departure(
        "Denim",
        1_793_901_600,
        f"{_DENIM}: active on Base Mainnet since 5 Nov 2026 18:00 UTC. {_AZUL}: Azul since 28 May 2026 18:00 UTC.",
        {"azul": 1_779_991_200},
    ),
    "base-sepolia": Departure(
        "Denim",
        1_792_605_600,
        f"{_DENIM}: active on Base Sepolia since 21 Oct 2026 18:00 UTC. {_AZUL}: Azul since 20 Apr 2026 18:00 UTC.",
        {"azul": 1_776_708_000},
    ),
}
"""By network name. The registry has the forks of the OP Stack alone, so these are not part of networks.json."""


NETWORKS_FILE = Path(__file__).with_name("networks.json")
ALIASES = {"mainnet": "op-mainnet", "sepolia": "op-sepolia"}
REGISTRY_CHANNEL_TIMEOUT = 300
FROM_GENESIS = {"regolith": 0}
"""Fork times that every chain of the registry has and no file states [CFG28]."""


PROTOCOL_VERSIONS = {
    "-mainnet": "0x8062AbC286f5e7D9428a0Ccb9AbD71e50d93b935",
    "-sepolia": "0x79ADD5713B383DAa0a138d3C4780C7A1804a8090",
    "-sepolia-dev-0": "0x252CbE9517F731C618961D890D534183822dcC8d",
}
"""The ProtocolVersions contract on L1 of the superchain that ends a network's name, from the registry's superchain.toml
before it dropped `protocol_versions_addr`; other superchains have none."""


class NetworkEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One network in networks.json. chain_ids: L1, L2.

    Timing: block time in seconds, sequencing window in L1 blocks, maximum drift in seconds; eip1559: elasticity,
    denominator, denominator from Canyon. `removed` says who no longer has the network; `additions` are date and
    source of what the registry did not have, and its names."""

    title: str
    chain_ids: tuple[int, int]
    timing: tuple[int, int, int]
    genesis_l1: tuple[int, str]
    genesis_l2: tuple[int, str, int]
    system_config: tuple[str, str, str, int]
    batch_inbox: str
    deposit_contract: str
    l1_system_config: str
    eip1559: tuple[int, int, int]
    forks: dict[str, int]
    keep_karst_upgrade_gas: bool = False
    pectra_blob_schedule_time: int | None = None
    alt_da: tuple[str, str, int, int] | None = None
    dependencies: tuple[int, ...] = ()
    protocol_versions: str | None = None
    removed: str | None = None
    additions: tuple[tuple[str, ...], ...] = ()


class RegistryVersion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The commit and date (YYYY-MM-DD) of the registry; `checked` is when releases since were last read."""

    commit: str
    date: str
    checked: str


class _NetworksFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file: `renamed` has current names of networks by old ones, `not_carried` the releases with others."""

    registry: RegistryVersion
    renamed: dict[str, str]
    not_carried: dict[str, str]
    networks: dict[str, NetworkEntry]


class BuiltInNetwork(NamedTuple):
    """A built-in network.

    `dependencies` are the L2 chain ids of its dependency set: the chain alone, unless it shares one. `removed` says
    who no longer has the network, None for one that is kept up."""

    name: str
    title: str
    config: RollupConfig
    dependencies: tuple[int, ...]
    removed: str | None


@cache
def _file() -> _NetworksFile:
    return msgspec.json.decode(NETWORKS_FILE.read_bytes(), type=_NetworksFile)


def _entries() -> dict[str, NetworkEntry]:
    return _file().networks


def registry_version() -> RegistryVersion:
    """Return the registry that the fork times of all built-in networks are from [OPT22]."""
    return _file().registry


def network_names() -> tuple[str, ...]:
    """Return the names of the built-in networks, without aliases, in alphabetical order."""
    return tuple(_entries())


def new_name(name: str) -> str | None:
    """Return the present name of a network that was renamed, in any case; None for every other [OPT22]."""
    return _file().renamed.get(name.strip().lower())


def find_network(name: str) -> BuiltInNetwork:
    """Return the network of that name, in any case.

    Raises OptionError for an unknown name, with similar ones, and for a network whose configuration is not carried
    [OPT23]."""
    lowered = name.strip().lower()
    wanted = new_name(name) or ALIASES.get(lowered, lowered)
    if wanted not in _entries():
        if release := _file().not_carried.get(wanted):
            text = f"{release} has its configuration and this node does not: give it with --rollup.config"
            raise OptionError(f"invalid network: {wanted}: {text}, instead of --network")
        hint = did_you_mean(name, (*_entries(), *ALIASES)) or "; rollup-node networks lists them"
        raise OptionError(f"invalid network: {shown(name)}{hint}")
    entry = _entries()[wanted]
    dependencies = entry.dependencies or (entry.chain_ids[1],)
    return BuiltInNetwork(wanted, entry.title, _config(wanted, entry), dependencies, entry.removed)


def network_of_chain(l2_chain_id: int) -> BuiltInNetwork | None:
    return next((find_network(name) for name, entry in _entries().items() if entry.chain_ids[1] == l2_chain_id), None)


def network_of_config(config: RollupConfig) -> BuiltInNetwork | None:
    """Return the built-in network with L2 chain id and L2 genesis block of a config, or None."""
    known = network_of_chain(config.l2_chain_id)
    return None if known is None or known.config.genesis.l2 != config.genesis.l2 else known


def built_in_name(config: RollupConfig) -> str:
    """Return the name of the built-in network that a config is, with all of its fork times; empty for none."""
    known = network_of_config(config)
    return known.name if known is not None and known.config.fork_times == config.fork_times else ""


def with_departure(config: RollupConfig) -> RollupConfig:
    """Return the config with the forks by which its chain left the OP Stack, if it is of such a network [LFT6]."""
    known = network_of_config(config)
    left = None if known is None else LEFT.get(known.name)
    return config if left is None else _departed(config, left)


def _departed(config: RollupConfig, left: Departure) -> RollupConfig:
    times = config.fork_times | dict(left.engine_forks)
    return msgspec.structs.replace(config, fork_times=times, foreign_fork=ForeignFork(left.fork, left.time))


def _config(name: str, entry: NetworkEntry) -> RollupConfig:
    shared = (result for end, result in PROTOCOL_VERSIONS.items() if name.endswith(end))
    versions = entry.protocol_versions or next(shared, None)
    block_time, window, drift = entry.timing
    batcher, overhead, scalar, gas_limit = entry.system_config
    l2_number, l2_hash, l2_time = entry.genesis_l2
    config = RollupConfig(
        genesis=Genesis(
            l1=BlockId(entry.genesis_l1[0], hash_from_hex(entry.genesis_l1[1])),
            l2=BlockId(l2_number, hash_from_hex(l2_hash)),
            l2_time=l2_time,
            system_config=SystemConfig(
                address_from_hex(batcher), hash_from_hex(overhead), hash_from_hex(scalar), gas_limit
            ),
        ),
        block_time=block_time,
        max_sequencer_drift=drift,
        seq_window_size=window,
        channel_timeout=REGISTRY_CHANNEL_TIMEOUT,
        l1_chain_id=entry.chain_ids[0],
        l2_chain_id=entry.chain_ids[1],
        fork_times=FROM_GENESIS | entry.forks,
        batch_inbox=address_from_hex(entry.batch_inbox),
        deposit_contract=address_from_hex(entry.deposit_contract),
        l1_system_config=address_from_hex(entry.l1_system_config),
        protocol_versions=ZERO_ADDRESS if versions is None else address_from_hex(versions),
        chain_op_config=ChainOpConfig(*entry.eip1559),
        alt_da=None if entry.alt_da is None else _alt_da(*entry.alt_da),
        pectra_blob_schedule_time=entry.pectra_blob_schedule_time,
        keep_karst_upgrade_gas=entry.keep_karst_upgrade_gas,
        dependency_set_size=max(1, len(entry.dependencies)),
    )
    return _departed(config, LEFT[name]) if name in LEFT else config


def _alt_da(contract: str, kind: str, challenge_window: int, resolve_window: int) -> AltDaConfig:
    address = address_from_hex(contract)
    return AltDaConfig(None if address == ZERO_ADDRESS else address, kind, challenge_window, resolve_window)
