"""From option values to a node that can be run: what each process is told, and how the supervisor runs them."""

import os
import secrets
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from rollup_node.node.options.rules import check_options, option_warnings
from rollup_node.node.options.values import Values
from rollup_node.node.setup.chain import ChosenChain, choose_chain
from rollup_node.node.setup.endpoint_checks import Endpoints, Listener, check_endpoints
from rollup_node.node.setup.jwt_secret import JwtSecret, load_jwt_secret
from rollup_node.node.setup.p2p import plan_peers
from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.system.log_formats import LogSettings, formatter
from rollup_node.node.system.log_pipes import Output
from rollup_node.node.system.processes import Row, node_rows
from rollup_node.node.system.runtime_dir import METRICS, SEQUENCER_STATE
from rollup_node.node.system.version import version
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.compute.config import ComputeConfig
from rollup_node.stages.derivation.config import DerivationConfig
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.io import log
from rollup_node.stages.io.log import Level
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.rpc.config import RpcConfig


class Notice(NamedTuple):
    """A line to log at the start."""

    level: Level
    text: str


class NodePlan(NamedTuple):
    """Everything needed to run a node."""

    rows: tuple[Row, ...]
    settings: NodeSettings
    notices: tuple[Notice, ...]


def plan_node(values: Values) -> NodePlan:
    """Checks the options, reads the files they name, and lays out the processes; OptionError for anything wrong."""
    check_options(values)
    notices: list[Notice] = [Notice(Level.WARN, text) for text in option_warnings(values)]
    chain = choose_chain(
        values,
        warn=lambda text: notices.append(Notice(Level.WARN, text)),
        complain=lambda text: notices.append(Notice(Level.ERROR, text)),
    )
    jwt = load_jwt_secret(values["l2.jwt-secret"])
    if jwt.is_new:
        notices.append(Notice(Level.INFO, f"made a new JWT secret in {jwt.path}: the execution engine needs it"))
    configs: dict[str, object] = {}
    if not values["p2p.disable"]:
        peering = plan_peers(values, chain)
        configs["p2p"] = peering.config
        if peering.new_key is not None:
            notices.append(Notice(Level.INFO, f"made a new network key in {peering.new_key}"))
        if values["sequencer.enabled"] and peering.config.sequencer_key is None:
            notices.append(Notice(Level.WARN, "blocks are sequenced but not gossiped: there is no p2p.sequencer.key"))
    directory = Path(values["runtime.dir"]).absolute() if values["runtime.dir"] else _private_directory()
    settings = NodeSettings(
        version=version(),
        log=LogSettings(values["log.level"], values["log.format"], values["log.color"], values["log.pid"]),
        runtime_dir=directory,
        check=partial(check_endpoints, endpoints(values, chain, jwt)),
    )
    rows = node_rows(stage_configs(values, chain, jwt, directory) | configs, worker_count(values))
    return NodePlan(rows, settings, tuple(notices))


def _private_directory() -> Path:
    """A name for a directory that nobody has; the supervisor makes and removes it."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    usable = base is not None and os.path.isdir(base) and os.access(base, os.W_OK | os.X_OK)
    return Path(base if base and usable else tempfile.gettempdir()) / f"rollup-node-{secrets.token_hex(6)}"


def worker_count(values: Values) -> int:
    """Compute processes: as asked, or one less than this process may use cores, at least 1."""
    return values["workers"] or max(1, len(os.sched_getaffinity(0)) - 1)


def endpoints(values: Values, chain: ChosenChain, jwt: JwtSecret) -> Endpoints:
    """What the start checks look at."""
    return Endpoints(
        rollup=chain.config,
        l1=values["l1"],
        l2=values["l2"],
        jwt_secret=jwt.secret,
        jwt_path=str(jwt.path),
        beacon=values["l1.beacon"],
        beacon_header=values["l1.beacon-header"],
        beacon_may_fail=values["l1.beacon.ignore"],
    )


def stage_configs(values: Values, chain: ChosenChain, jwt: JwtSecret, directory: Path) -> dict[str, object]:
    """The config of each role but p2p."""
    return {
        "l1": msgspec.structs.replace(
            l1_config(values, chain),
            runtime_config=not values["p2p.disable"],
            runtime_config_interval=values["l1.runtime-config-reload-interval"],
        ),
        "blobs": blobs_config(values, chain),
        "derivation": DerivationConfig(
            rollup=chain.config,
            l1_chain=chain.l1_chain,
            span_overlap_check=values["rollup.span-overlap-check"],
        ),
        "compute": ComputeConfig(),
        "engine": _engine(values, chain, jwt, directory),
        "rpc": _rpc(values, chain, directory),
    }


def l1_config(values: Values, chain: ChosenChain) -> L1Config:
    """What the l1 process is told."""
    return L1Config(
        endpoints=values["l1"],
        rollup=chain.config,
        trust_rpc=values["l1.trustrpc"],
        rpc_kind=values["l1.rpckind"],
        poll_interval=values["l1.http-poll-interval"],
        epoch_poll_interval=values["l1.epoch-poll-interval"],
        max_concurrency=values["l1.max-concurrency"],
        max_batch=values["l1.rpc-max-batch-size"],
        rate_limit=values["l1.rpc-rate-limit"],
        cache_size=values["l1.cache-size"],
        verifier_confs=values["verifier.l1-confs"],
    )


def blobs_config(values: Values, chain: ChosenChain) -> BlobsConfig:
    """What the blobs process is told."""
    return BlobsConfig(
        beacon=values["l1.beacon"],
        rollup=chain.config,
        fallbacks=values["l1.beacon-fallbacks"],
        header=values["l1.beacon-header"],
        fetch_all_sidecars=values["l1.beacon.fetch-all-sidecars"],
        slot_seconds=values["l1.beacon.slot-duration-override"] or None,
    )


def _engine(values: Values, chain: ChosenChain, jwt: JwtSecret, directory: Path) -> EngineConfig:
    return EngineConfig(
        url=values["l2"],
        jwt_secret=jwt.secret,
        timeout=values["l2.engine-rpc-timeout"],
        engine_kind=values["l2.enginekind"],
        rollup=chain.config,
        l1_chain=chain.l1_chain,
        sequencer_enabled=values["sequencer.enabled"],
        sequencer_stopped=values["sequencer.stopped"],
        sequencer_l1_confs=values["sequencer.l1-confs"],
        sequencer_max_safe_lag=values["sequencer.max-safe-lag"],
        sequencer_recover=values["sequencer.recover"],
        sealing_duration=values["sequencer.sealing-duration"],
        finality_lookback=values["finality.lookback"] or None,
        finality_delay=values["finality.delay"] or None,
        withdrawal_root_from_state=values["fetch-withdrawal-root-from-state"],
        skip_sync_start_check=values["l2.skip-sync-start-check"],
        sequencer_state_file=str(directory / SEQUENCER_STATE),
        p2p=not values["p2p.disable"],
        fill_gaps=values["p2p.sync.req-resp"],
    )


def _rpc(values: Values, chain: ChosenChain, directory: Path) -> RpcConfig:
    return RpcConfig(
        addr=values["rpc.addr"],
        port=values["rpc.port"],
        enable_admin=values["rpc.enable-admin"],
        version=version(),
        metrics_enabled=values["metrics.enabled"],
        metrics_addr=values["metrics.addr"],
        metrics_port=values["metrics.port"],
        metrics_dir=str(directory / METRICS),
        rollup=chain.config,
        p2p=not values["p2p.disable"],
    )


def listeners(values: Values) -> list[Listener]:
    """The servers of the node."""
    groups = ["rpc", *(["metrics"] if values["metrics.enabled"] else [])]
    found = [
        Listener(f"{group}.addr", f"{group}.port", values[f"{group}.addr"], values[f"{group}.port"]) for group in groups
    ]
    if not values["p2p.disable"]:
        ip, tcp, udp = values["p2p.listen.ip"], values["p2p.listen.tcp"], values["p2p.listen.udp"]
        found.append(Listener("p2p.listen.ip", "p2p.listen.tcp", ip, tcp))
        if not values["p2p.no-discovery"]:
            found.append(Listener("p2p.listen.ip", "p2p.listen.udp", ip, udp or tcp, is_udp=True))
    return found


def log_notices(plan: NodePlan, warnings: Sequence[str]) -> None:
    """Writes the notices and warnings in the form of the node's log, to where it goes."""
    form = formatter(plan.settings.log)
    output = Output(plan.settings.log_output, lambda lines: b"")
    log.configure("supervisor", plan.settings.log.level, lambda record: output.write(form(record)))
    logger = log.get_logger("options")
    for notice in (*(Notice(Level.WARN, text) for text in warnings), *plan.notices):
        logger.write(notice.level, notice.text, {})
    output.flush()
