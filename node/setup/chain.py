"""The chain that the options choose: a built-in network or a rollup.json, with overrides and its L1 chain.

And the checks that need both options and chain [OPT22 to OPT34, OPT40 to OPT43, OPT62 to OPT65]."""

import re
from collections.abc import Callable
from typing import Annotated, NamedTuple

import msgspec

from rollup_node.node.options.errors import MissingOption, OptionError, shown
from rollup_node.node.options.given_files import read_chain_file
from rollup_node.node.options.values import Values
from rollup_node.node.setup import networks
from rollup_node.node.setup.bundles import chosen_bundles
from rollup_node.stages.protocol import l1_chains
from rollup_node.stages.protocol.config import ConfigError, RollupConfig, check_config, utc_time
from rollup_node.stages.protocol.config_json import parse_rollup_config
from rollup_node.stages.protocol.errors import DECODE_ERRORS
from rollup_node.stages.protocol.forks.schedule import lagoon_from
from rollup_node.stages.protocol.forks.table import OPTIONAL_FORK, OVERRIDABLE
from rollup_node.stages.protocol.interop_messages import MESSAGE_EXPIRY_WINDOW
from rollup_node.stages.protocol.types import ZERO_ADDRESS
from rollup_node.stages.rpc.config import DependencySet

MAX_TIMESTAMP = (1 << 64) - 1

LogLine = Callable[[str], None]
_CHAIN_ID = re.compile("[0-9]{1,78}")


class ChosenChain(NamedTuple):
    """The chain named by network or file, and its L1; `dependencies` is None without a dependency set."""

    name: str
    config: RollupConfig
    l1_chain: l1_chains.L1Chain
    dependencies: DependencySet | None = None


class _DependencySetFile(msgspec.Struct, frozen=True):
    """The file of `interop.dependency-set`: decimal chain ids, each with an empty object [IOP25]."""

    dependencies: dict[str, dict[str, object]]
    overrideMessageExpiryWindow: Annotated[int, msgspec.Meta(ge=0)] = 0


def choose_chain(values: Values, warn: LogLine = lambda text: None) -> ChosenChain:
    """Return the chain of the options. `warn` gets lines to log.

    Raises OptionError for a chain that is unknown, misconfigured or not supported."""
    name, config, is_built_in = _named_chain(values, warn)
    overridden = _with_overrides(config, values)
    if not is_built_in or overridden != config:
        try:
            check_config(overridden)
        except ConfigError as error:
            overrides = [values.source(item) for item in values.names_given() if item.startswith("override.")]
            raise OptionError(f"rollup config error: {error} ({', '.join((name, *overrides))})") from None
    dependencies = _dependency_set(overridden, values)
    config = _with_constants(overridden, name)
    if dependencies is not None:
        config = msgspec.structs.replace(config, dependency_set_size=len(dependencies.chains))
    config = msgspec.structs.replace(config, bundles=chosen_bundles(config, values))
    chain = ChosenChain(name, config, _l1_chain(config, values, warn), dependencies)
    _check_blob_schedule(chain, values)
    _check_beacon(chain, values)
    if wants_protocol_versions(values) and config.protocol_versions == ZERO_ADDRESS:
        warn(f"the protocol versions are not read: {name} has no protocol_versions_address")
    _check_alt_da(chain, values)
    return chain


def wants_protocol_versions(values: Values) -> bool:
    """Whether the versions that L1 signals are read [PRV2]."""
    return bool(values["rollup.load-protocol-versions"]) or values["rollup.halt"] not in (None, "none")


def _named_chain(values: Values, warn: LogLine) -> tuple[str, RollupConfig, bool]:
    path = values["rollup.config"]
    if values["network"]:
        network = networks.find_network(values["network"])
        if path:
            warn(f"both network and rollup.config are given: {network.name} is used, {path} is ignored")
        _warn_of_name(values, network, warn)
        return network.name, network.config, True
    try:
        file = parse_rollup_config(read_chain_file(path, "failed to read rollup config"))
    except ConfigError as error:
        raise OptionError(f"rollup config error: {error} (file {path})") from None
    for key in file.unknown_keys:
        warn(f"file {path} has an unknown key, which is ignored: {shown(key)}")
    return f"file {path}", networks.with_departure(file.config), False


def _warn_of_name(values: Values, network: networks.BuiltInNetwork, warn: LogLine) -> None:
    """Warn of a name that the network no longer has, and of a network that is no longer kept up [OPT22]."""
    source = values.source("network")
    if networks.new_name(values["network"]) is not None:
        warn(f"{source}: {shown(values['network'])} is an old name of {network.name}")
    if network.removed is not None and network.config.foreign_fork is None:
        day = networks.registry_version().date
        text = f"{network.removed} no longer has {network.name}: its fork times are those of {day} and are not kept up"
        warn(f"{source}: {text}; if the chain goes on, give its rollup.json with --rollup.config")


def _with_overrides(config: RollupConfig, values: Values) -> RollupConfig:
    """Override act only when given; 0 is genesis [OPT26, OPT27]."""
    times = {fork: values[f"override.{fork}"] for fork in OVERRIDABLE if values.given(f"override.{fork}")}
    pectra = times.pop(OPTIONAL_FORK, config.pectra_blob_schedule_time)
    keep = "override.keep-karst-upgrade-gas"
    return msgspec.structs.replace(
        config,
        fork_times=config.fork_times | times,
        pectra_blob_schedule_time=pectra,
        keep_karst_upgrade_gas=values[keep] if values.given(keep) else config.keep_karst_upgrade_gas,
    )


def _with_constants(config: RollupConfig, name: str) -> RollupConfig:
    """Fill in the EIP-1559 constants from the registry when the file has none [OPT32]."""
    if config.chain_op_config is not None:
        return config
    known = networks.network_of_chain(config.l2_chain_id)
    if known is None:
        raise OptionError(
            f"cfg.Rollup.ChainOpConfig is nil: {name} has no chain_op_config, and chain {config.l2_chain_id} is not"
            " a built-in network"
        )
    return msgspec.structs.replace(config, chain_op_config=known.config.chain_op_config)


def _dependency_set(config: RollupConfig, values: Values) -> DependencySet | None:
    path = values["interop.dependency-set"]
    known = networks.network_of_chain(config.l2_chain_id)
    if path:
        return _dependencies_of_file(path, config.l2_chain_id)
    if known is not None:
        return DependencySet(known.dependencies)
    needed_from = lagoon_from(config.fork_times)
    if needed_from is not None:
        raise OptionError(
            f"the Lagoon upgrade is scheduled ({utc_time(needed_from)}), but no dependency set is configured: give"
            " --interop.dependency-set=FILE, which for a chain on its own is"
            f' {{"dependencies": {{"{config.l2_chain_id}": {{}}}}}}'
        )
    return None


def _dependencies_of_file(path: str, l2_chain_id: int) -> DependencySet:
    """Return the set of a file [IOP25]. Raises OptionError if it is unreadable or the set does not fit the chain."""
    refusal = "failed to read dependency set (--interop.dependency-set)"
    content, error_prefix = read_chain_file(path, refusal), f"{refusal}: {path}"
    try:
        result = msgspec.json.decode(content, type=_DependencySetFile)
    except DECODE_ERRORS as error:
        raise OptionError(f"{error_prefix}: {error}") from None
    if not result.dependencies or not all(map(_CHAIN_ID.fullmatch, result.dependencies)):
        raise OptionError(f"{error_prefix}: its keys must be decimal chain ids")
    chains, window = tuple(map(int, result.dependencies)), result.overrideMessageExpiryWindow
    if l2_chain_id not in chains:
        raise OptionError(f"{error_prefix}: it must have chain {l2_chain_id} itself, and has {_listed(chains)}")
    if len(set(chains)) < len(chains):
        raise OptionError(f"{error_prefix}: it has a chain twice: {_listed(chains)}")
    if window > MESSAGE_EXPIRY_WINDOW:
        raise OptionError(
            f"{error_prefix}: overrideMessageExpiryWindow is {window} s, at most {MESSAGE_EXPIRY_WINDOW}: the network's"
            " nodes refuse older messages, and this one would call their blocks valid"
        )
    return DependencySet(chains, window)


def _listed(chains: tuple[int, ...]) -> str:
    return shown(", ".join(map(str, chains)))


def _l1_chain(config: RollupConfig, values: Values, warn: LogLine) -> l1_chains.L1Chain:
    known = l1_chains.L1_CHAINS.get(config.l1_chain_id)
    if known is not None:
        return known
    path = values["rollup.l1-chain-config"]
    if not path:
        raise OptionError(
            f"failed to read chain spec: L1 chain {config.l1_chain_id} is not built in, give its configuration with"
            " --rollup.l1-chain-config"
        )
    content = read_chain_file(path, "failed to read chain spec")
    try:
        chain = l1_chains.parse_l1_chain(content, config.l1_chain_id)
    except l1_chains.L1ChainError as error:
        raise OptionError(f"{error} (file {path})") from None
    if old := l1_chains.old_members(content):
        source, names = values.source("rollup.l1-chain-config"), ", ".join(old)
        text = f"{path} has {names}: no longer used (Osaka has the entry of prague), and refused by op-node 1.21.0"
        warn(f"{source}: {text}; delete them")
    return chain


def _check_blob_schedule(chain: ChosenChain, values: Values) -> None:
    config = chain.config
    probably_missing = l1_chains.pectra_schedule_probably_missing(
        chain.l1_chain, config.genesis.l2_time, config.pectra_blob_schedule_time
    )
    if probably_missing and not values["ignore-missing-pectra-blob-schedule"]:
        raise OptionError(
            f"probably missing Pectra blob schedule: {chain.name} started before Prague on its L1 and has no"
            " pectra_blob_schedule_time; set --override.pectrablobschedule, or"
            " --ignore-missing-pectra-blob-schedule if it needs none"
        )


def _check_beacon(chain: ChosenChain, values: Values) -> None:
    needs_blobs = chain.config.schedule().l1(MAX_TIMESTAMP).blobs_as_data
    derives = not values["l2.follow.source"]
    if needs_blobs and derives and not values["l1.beacon"] and not values["l1.beacon.ignore"]:
        raise MissingOption(
            "misconfigured L1 Beacon API endpoint: expected L1 Beacon API endpoint, but got none: give --l1.beacon,"
            " or --l1.beacon.ignore if no batch is ever in blobs"
        )


def _check_alt_da(chain: ChosenChain, values: Values) -> None:
    """Alt-DA must be configured for chain and node alike [OPT76, OPT77]."""
    alt_da = chain.config.alt_da
    if alt_da is None:
        if values["altda.enabled"]:
            raise OptionError(f"failed to get altDA config: no altDA config ({chain.name} has no alt_da)")
        return
    if not values["altda.enabled"]:
        raise OptionError(
            f"altDA config error: the batches of {chain.name} are kept by a DA server: give --altda.enabled and"
            " --altda.da-server"
        )
    for window, name in ((alt_da.challenge_window, "Challenge"), (alt_da.resolve_window, "Resolve")):
        if window == 0:
            raise OptionError(f"failed to get altDA config: missing DA{name}Window ({chain.name})")
