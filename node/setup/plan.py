"""From option values to the configurations of a node's processes.

Planning checks options and reads the files of the chain; it creates no secrets and opens no databases (see
secrets.py and state_files.py)."""

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rollup_node.node.checks.finding import ListenAddress
from rollup_node.node.options.errors import MissingOption, OptionError, WrongOptions, error_lines
from rollup_node.node.options.rules import (
    REQUIRED,
    RULES,
    broken,
    check_options,
    option_warnings,
    peer_scoring,
    uses_el_sync,
)
from rollup_node.node.options.values import NodeOptions, Values, build_config
from rollup_node.node.setup.bundles import folder_of_choice
from rollup_node.node.setup.chain import ChosenChain, choose_chain, wants_protocol_versions
from rollup_node.node.setup.checkpoint import checkpoint_config
from rollup_node.node.setup.endpoint_checks import NodeEndpoints
from rollup_node.node.setup.networks import built_in_name
from rollup_node.node.setup.notices import Notice
from rollup_node.node.setup.p2p import check_p2p_config, sequencer_key, signer_config
from rollup_node.node.supervisor.settings import NodeSettings, PrecheckFunction
from rollup_node.node.system.exit_codes import SetupError, version
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.node.system.metrics_file import REWRITE_SECONDS, WRITE_SECONDS
from rollup_node.node.system.process_table import ProcessSpec, node_processes
from rollup_node.node.system.profiling import ProfilingSettings, profile_path
from rollup_node.node.system.runtime_dir import (
    ASIDE,
    METRICS,
    PROCESSES,
    PROFILES,
    RELOAD,
    RPC_URL,
    kept_root,
    runtime_path,
    sequencer_state,
)
from rollup_node.stages.blobs.config import BlobsConfig, DaServerConfig
from rollup_node.stages.compute.config import ComputeConfig
from rollup_node.stages.derivation.config import MAX_AHEAD, DerivationConfig
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.interop.config import InteropProcessConfig
from rollup_node.stages.io.log.logger import Level
from rollup_node.stages.l1.config import CheckpointConfig, L1Config
from rollup_node.stages.p2p.config import MEMORY, P2pConfig
from rollup_node.stages.p2p.discv5.enode import choose_bootnodes
from rollup_node.stages.protocol.types import ZERO_ADDRESS
from rollup_node.stages.rpc.config import RpcConfig, RpcProcessConfig

CLIENTS = 64
"""Clients of the RPC server that a node can serve at once at least."""

HALT_SECONDS = 300.0
"""How long the metrics are served after the node has halted [PRV6]."""


@dataclass(frozen=True)
class NodePlan:
    """A node as its options describe it, before its secrets are known. `p2p` is None with `p2p.disable`.

    `group` is that of its chain's processes, empty for the only chain. `checkpoint` is None where L1 endpoints are
    believed."""

    values: Values
    chain: ChosenChain
    p2p: P2pConfig | None
    checkpoint: CheckpointConfig | None
    runtime_dir: Path
    notices: tuple[Notice, ...]
    group: str = ""

    @property
    def l2_chain_id(self) -> int:
        return self.chain.config.l2_chain_id


@dataclass(frozen=True)
class NodeSecrets:
    """The engine's JWT secret, and where it comes from.

    The private network key, None without a peer-to-peer network; the JWT secret of the admin API, None where it
    needs no token; that of the interop server, empty where there is none."""

    jwt: bytes
    jwt_source: str
    network_key: bytes | None
    rpc_jwt: bytes | None
    interop_jwt: bytes = b""


@dataclass(frozen=True)
class NodeConfigs:
    """The configuration of each process; None for one that is not started."""

    l1: L1Config
    blobs: BlobsConfig | None
    derivation: DerivationConfig | None
    compute: ComputeConfig | None
    engine: EngineConfig
    p2p: P2pConfig | None
    rpc: RpcConfig


def plan_node(values: Values, group: str = "", runtime_dir: Path | None = None) -> NodePlan:
    """Check the options and choose the chain. Raises OptionError for anything that is wrong.

    `runtime_dir` is that of the other chains of a supernode."""
    check_options(values)
    notices = [Notice(Level.WARN, text) for text in option_warnings(values)]
    chain = choose_chain(values, lambda text: notices.append(Notice(Level.WARN, text)))
    p2p = None if values["p2p.disable"] else p2p_config(values, chain)
    if p2p is not None and values["sequencer.enabled"] and not p2p.has_signer:
        text = "blocks are sequenced but not gossiped: there is no p2p.sequencer.key and no signer.endpoint"
        notices.append(Notice(Level.WARN, text))
    runtime_dir = runtime_dir or runtime_path(values["runtime.dir"])
    checkpoint = checkpoint_config(values, chain.config.l1_chain_id)
    return NodePlan(values, chain, p2p, checkpoint, runtime_dir, tuple(notices), group)


def node_configs(plan: NodePlan, node_secrets: NodeSecrets, verified: bool = False) -> NodeConfigs:
    """Return the configuration of each process of a chain; `verified`: an interop process verifies its messages."""
    values, chain, has_p2p = plan.values, plan.chain, plan.p2p is not None
    rollup, derives = chain.config, not values["l2.follow.source"]
    l1 = l1_config(values, chain, runtime_config=has_p2p)
    return NodeConfigs(
        l1=msgspec.structs.replace(l1, checkpoint=_kept(plan), derives=derives),
        blobs=blobs_config(values) if derives else None,
        derivation=derivation_config(values, chain) if derives else None,
        # The sequencer's L1 blocks are verified by compute [FSR9].
        compute=ComputeConfig() if derives or values["sequencer.enabled"] else None,
        engine=build_config(
            EngineConfig,
            values,
            jwt_secret=node_secrets.jwt,
            rollup=rollup,
            l1_chain=chain.l1_chain,
            sequencer_state_file=str(sequencer_state(plan.runtime_dir, plan.group)),
            p2p=has_p2p,
            fill_gaps=values["p2p.sync.req-resp"],
            bundle_auto=folder_of_choice(values) is not None,
            gaps_from_engine=not values["syncmode.req-resp"],
            el_sync=uses_el_sync(values),
            interop=is_managed(values),
            offset_el_safe=float(values["syncmode.offset-el-safe"]) if uses_el_sync(values) else 0.0,  # [ELS5]
            engine_kind_given=values.given("l2.enginekind"),
            network=built_in_name(rollup),
            verified=verified,
        ),
        p2p=None if plan.p2p is None else msgspec.structs.replace(plan.p2p, priv_raw=node_secrets.network_key),
        rpc=build_config(
            RpcConfig,
            values,
            version=version(),
            metrics_dir=str(plan.runtime_dir / METRICS),
            pprof_dir=str(plan.runtime_dir / PROFILES),
            rollup=rollup,
            network=chain.name if values["network"] else "",
            l1_confs=values["verifier.l1-confs"],
            processes_file=str(plan.runtime_dir / PROCESSES),
            aside_file=str(plan.runtime_dir / ASIDE) if plan.group else "",
            url_file=str(plan.runtime_dir / RPC_URL),
            reload_file=str(plan.runtime_dir / RELOAD),
            dependency_set=chain.dependencies,
            p2p=has_p2p,
            databases=_databases(plan),
            finds_peers=plan.p2p is None or not plan.p2p.no_discovery or bool(plan.p2p.static),
            conductor_enabled=values["conductor.enabled"],
            safedb=values["safedb.path"] is not None and derives,
            derives=derives,
            jwt_secret=node_secrets.rpc_jwt,
            interop_jwt=node_secrets.interop_jwt,
            verified=verified,
        ),
    )


def _kept(plan: NodePlan) -> CheckpointConfig | None:
    """Return the checkpoint with a file for what is proven from it: the process may start again weeks later [LCP13]."""
    checkpoint = plan.checkpoint
    if checkpoint is None or checkpoint.path is not None:
        return checkpoint
    return msgspec.structs.replace(checkpoint, path=str(kept_root(plan.runtime_dir)))


def is_managed(values: Values) -> bool:
    """Whether an interop supervisor manages the node [IOP4]."""
    return bool(values["interop.rpc.addr"])


def l1_config(values: Values, chain: ChosenChain, *, runtime_config: bool, inbox_hashes: bool = False) -> L1Config:
    """Return the configuration of the l1 process, which reads the runtime config for `runtime_config` and versions."""
    versions = wants_protocol_versions(values) and chain.config.protocol_versions != ZERO_ADDRESS
    return build_config(
        L1Config,
        values,
        rollups=(chain.config,),
        runtime_config=runtime_config or versions,
        protocol_versions=versions,
        inbox_hashes=inbox_hashes,
    )


def blobs_config(values: Values) -> BlobsConfig:
    da_servers = {"": build_config(DaServerConfig, values)} if values["altda.enabled"] else {}
    return build_config(BlobsConfig, values, da_servers=da_servers)


def derivation_config(
    values: Values, chain: ChosenChain, *, drops_are_read: bool = False, ahead: int = MAX_AHEAD
) -> DerivationConfig:
    return build_config(
        DerivationConfig,
        values,
        rollup=chain.config,
        l1_chain=chain.l1_chain,
        drops_are_read=drops_are_read,
        ahead=ahead,
        managed=is_managed(values) and not drops_are_read,
    )


def p2p_config(values: Values, chain: ChosenChain) -> P2pConfig:
    """Return the configuration of the p2p process, with the key of `p2p.priv.raw` if that is given."""
    value, network, rollup_config = values["p2p.bootnodes"], values["network"], values["rollup.config"]
    bootnodes = choose_bootnodes(value, network=network, rollup_config=rollup_config)
    config = build_config(
        P2pConfig,
        values,
        rollup=chain.config,
        bootnodes=bootnodes,
        scoring=peer_scoring(values),
        signer=signer_config(values),
    )
    return msgspec.structs.replace(config, sequencer_key=sequencer_key(values))


def processes(
    chains: Mapping[str, NodeConfigs], workers: int, interop: InteropProcessConfig | None = None
) -> tuple[ProcessSpec, ...]:
    """Return the processes of the chains by group: those of each, and one of each kind that all share."""
    configs = list(chains.values())
    blobs = next((chain.blobs for chain in configs if chain.blobs is not None), None)
    shared = {
        "l1": msgspec.structs.replace(
            configs[0].l1,
            rollups=tuple(chain.engine.rollup for chain in configs),
            runtime_config=any(chain.l1.runtime_config for chain in configs),
            protocol_versions=any(chain.l1.protocol_versions for chain in configs),
            chain_confs={chain.engine.rollup.l2_chain_id: chain.l1.verifier_confs for chain in configs[1:]},
        ),
        "blobs": None if blobs is None else msgspec.structs.replace(blobs, da_servers=_da_servers(chains)),
        "compute": next((chain.compute for chain in configs if chain.compute is not None), None),
        "interop": interop,
        "rpc": RpcProcessConfig({group: chain.rpc for group, chain in chains.items()}),
    }
    by_group: dict[str, dict[str, object]] = {"": _present(shared)}
    for group, chain in chains.items():
        own = {"derivation": chain.derivation, "engine": chain.engine, "p2p": chain.p2p}
        by_group.setdefault(group, {}).update(_present(own))
    return node_processes(by_group, workers)


def _da_servers(chains: Mapping[str, NodeConfigs]) -> dict[str, DaServerConfig]:
    return {
        group: server
        for group, chain in chains.items()
        if chain.blobs is not None
        for server in chain.blobs.da_servers.values()
    }


def _present(configs: Mapping[str, object]) -> dict[str, object]:
    return {role: config for role, config in configs.items() if config is not None}


def node_settings(plan: NodePlan, chains: Collection[NodeConfigs], precheck: PrecheckFunction) -> NodeSettings:
    """Return the settings of the supervisor, by the options that all chains share."""
    configs = next(iter(chains))
    return NodeSettings(
        version=version(),
        chains=tuple(chain.rpc.network or str(chain.rpc.rollup.l2_chain_id) for chain in chains),
        log=build_config(LogSettings, plan.values),
        runtime_dir=plan.runtime_dir,
        precheck=precheck,
        connections=max(map(_connections, chains)),
        halt_seconds=HALT_SECONDS if configs.rpc.metrics_enabled else 0.0,
        metrics_period=WRITE_SECONDS if configs.rpc.metrics_enabled else REWRITE_SECONDS,
        profiling=profiling_settings(plan.values),
        tracing=plan.values["tracing.otlp-endpoint"] or "",
    )


def endpoints_to_check(plan: NodePlan, configs: NodeConfigs, node_secrets: NodeSecrets) -> NodeEndpoints:
    """Return the endpoints of the node, as its start checks them."""
    return NodeEndpoints(
        rollup=plan.chain.config,
        l1=configs.l1.endpoints,
        l2=configs.engine.url,
        jwt_secret=node_secrets.jwt,
        jwt_source=node_secrets.jwt_source,
        beacon=None if configs.blobs is None else configs.blobs.beacon,
        beacon_header=None if configs.blobs is None else configs.blobs.header,
        beacon_may_fail=plan.values["l1.beacon.ignore"],
        signer=None if plan.p2p is None else plan.p2p.signer,
        follow=configs.engine.follow_url,
        engine_kind=configs.engine.engine_kind if configs.engine.engine_kind_given else None,
        network=configs.engine.network,
        checkpoint=plan.checkpoint,
    )


def profiling_settings(values: Values) -> ProfilingSettings:
    """Which profiles the processes make. Raises SetupError when the folder of the file cannot be written."""
    kind, served = values["pprof.type"], values["pprof.enabled"]
    if kind is None:
        return ProfilingSettings(served)
    path = profile_path(values["pprof.path"], kind)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise SetupError(
            f"cannot write a profile to {path}: give a path in a folder that this node may write (--pprof.path)"
        )
    return ProfilingSettings(served, kind, path)


def _connections(configs: NodeConfigs) -> int:
    """Return the connections that one process needs: those of peers, or of clients of the RPC server."""
    if configs.p2p is None:
        return CLIENTS
    limits = configs.p2p.limits
    return max(CLIENTS, limits.max_connections(configs.p2p.peers_hi) + limits.half_open)


def _databases(plan: NodePlan) -> dict[str, str]:
    """Return the absolute paths of the databases on disk."""
    follows, p2p = plan.values["l2.follow.source"], plan.p2p
    paths = {"safedb": None if follows else plan.values["safedb.path"]}
    if p2p is not None:
        paths |= {"peerstore": p2p.peerstore_path, "signed_blocks": p2p.signed_blocks_path if p2p.has_signer else None}
        paths["discovery"] = None if p2p.no_discovery else p2p.discovery_path
    return {name: os.path.abspath(path) for name, path in paths.items() if path not in (None, MEMORY)}


def listeners(configs: NodeConfigs) -> list[ListenAddress]:
    rpc, p2p = configs.rpc, configs.p2p
    result = [ListenAddress("rpc.addr", "rpc.port", rpc.addr, rpc.port)]
    if rpc.metrics_enabled:
        result.append(ListenAddress("metrics.addr", "metrics.port", rpc.metrics_addr, rpc.metrics_port))
    if rpc.interop_addr:
        result.append(ListenAddress("interop.rpc.addr", "interop.rpc.port", rpc.interop_addr, rpc.interop_port))
    if rpc.pprof_enabled:
        result.append(ListenAddress("pprof.addr", "pprof.port", rpc.pprof_addr, rpc.pprof_port))
    if rpc.status_enabled:
        result.append(ListenAddress("status.addr", "status.port", rpc.status_addr, rpc.status_port))
    if p2p is not None:
        result.append(ListenAddress("p2p.listen.ip", "p2p.listen.tcp", p2p.listen_ip, p2p.listen_tcp))
        if not p2p.no_discovery:
            port = p2p.listen_udp or p2p.listen_tcp
            result.append(ListenAddress("p2p.listen.ip", "p2p.listen.udp", p2p.listen_ip, port, is_udp=True))
    return result


def reject_wrong_options(options: NodeOptions) -> None:
    """Raise WrongOptions if anything is wrong."""
    lines = wrong_lines(options)
    if lines:
        raise WrongOptions(lines)


def wrong_lines(options: NodeOptions) -> tuple[str, ...]:
    """Return a line for each thing that is wrong in the options, their rules, and the chain.

    What is missing may be in an options file that cannot be used: then only values that cannot be parsed are
    reported. Nor is that said to be missing which a misspelt name may mean. No file is written."""
    lines = options.errors
    if options.has_file:
        lines = (*lines, *_broken_rules(options))
        try:
            lines = (*lines, *_wrong_chain(options))
        except msgspec.ValidationError:
            # A configuration lacks what a broken rule says.
            if not lines:
                raise
    return lines


def _broken_rules(options: NodeOptions) -> Iterator[str]:
    for rule in RULES:
        if not (options.lacks_names and rule in REQUIRED):
            yield from broken(rule, options.values)


def _wrong_chain(options: NodeOptions) -> Iterator[str]:
    """Check the chain; an invalid value raises its error again, which WrongOptions drops."""
    values = options.values
    try:
        if not values["network"] and not values["rollup.config"]:
            return  # a rule says so
        chain = choose_chain(values)
        if not values["p2p.disable"]:
            check_p2p_config(p2p_config(values, chain))
    except OptionError as error:
        if not (options.lacks_names and isinstance(error, MissingOption)):
            yield from error_lines(error)
