"""Starts a node: plan, secrets, state files, ports, supervisor; so errors in options leave no files behind."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from rollup_node.node.checks.finding import check_ports, require
from rollup_node.node.options.supernode import errors_of_chain
from rollup_node.node.options.values import NodeOptions, Values
from rollup_node.node.setup.bundles import check_folder_of_choice
from rollup_node.node.setup.endpoint_checks import check_chains
from rollup_node.node.setup.notices import Notice, introduction, log_notices, schedule_notices
from rollup_node.node.setup.plan import NodeSecrets, listeners, node_settings, plan_node, reject_wrong_options
from rollup_node.node.setup.reload import ConfiguredNode, RunningOptions
from rollup_node.node.setup.secrets import load_secrets
from rollup_node.node.supervisor.supervisor import run_node
from rollup_node.node.system.exit_codes import RESTART, SetupError
from rollup_node.node.system.log_pipes import log_file
from rollup_node.stages.engine.process.safe_heads import SafeHeadStore
from rollup_node.stages.engine.process.sequencer_store import AdminStateFile, StoreFailedError
from rollup_node.stages.interop.config import InteropProcessConfig
from rollup_node.stages.interop.process.store import InteropStore
from rollup_node.stages.io.files.sqlite_file import StoreError
from rollup_node.stages.io.log.logger import Level, Logger
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.signer.io.signed_blocks_file import SignedBlocksFile
from rollup_node.stages.p2p.storage.io.node_database import NodeDatabase
from rollup_node.stages.p2p.storage.io.peerstore import PeerStore
from rollup_node.stages.protocol.config import RollupConfig


def start_node(options: NodeOptions, read: Callable[[], NodeOptions]) -> int:
    """Run a node, again when it asks for a new start, and log its warnings; its exit code. Raises SetupError.

    `read` reads the options again for a reload."""

    def read_again() -> NodeOptions:
        reject_wrong_options(new := read())
        return new

    return start_chains(RunningOptions(options, read_again, lambda new: ([plan_node(new.values)], None)))


def start_chains(options: RunningOptions) -> int:
    """Run a node of these chains, again when it asks for a new start. Raises SetupError."""
    while (code := _run(options)) == RESTART:
        continue
    return code


def _run(options: RunningOptions) -> int:
    plans, interop = options.plans()
    notices = [Notice(Level.WARN, text) for text in options.options.warnings]
    secrets: dict[str, NodeSecrets] = {}
    stopped: dict[str, bool] = {}
    for plan in plans:
        values = plan.values
        notices += plan.notices
        safedb = None if values["l2.follow.source"] else values["safedb.path"]
        with errors_of_chain(plan.group):
            secrets[plan.group] = load_secrets(plan, notices.append)
            check_state_files(plan.p2p, plan.chain.config, safedb)
            check_folder_of_choice(values)
            stopped[plan.group] = sequencer_stopped(values, notices.append)
    node = ConfiguredNode(plans, interop, secrets, stopped)
    options.started(node)
    chains, verifier = node.configs, node.verifier
    if verifier is not None:
        check_interop_store(verifier)
    require(
        check_ports(list(dict.fromkeys(item for chain in chains.values() for item in listeners(chain)))),
        Logger("start"),
    )
    settings = node_settings(plans[0], chains.values(), partial(check_chains, node.endpoints))
    file = log_file(settings.log)
    settings = replace(settings, reload=options.reload, renew_chain=options.renew_chain, log_file=file)
    now = time.time()
    lines = [
        line
        for plan in plans
        for line in (
            *introduction(plan.values, plan.chain, now, chains[plan.group].rpc.verified),
            *schedule_notices(plan.chain, now),
        )
    ]
    log_notices([*lines, *notices], settings)
    try:
        return run_node(node.processes, settings)
    finally:
        if file is not None:
            file.close()


def sequencer_stopped(values: Values, notice: Callable[[Notice], None]) -> bool:
    """Whether the sequencer begins stopped: by what `rpc.admin-state` has stored, or else by `sequencer.stopped`.

    What counts is stored [ADM1 to ADM5]. Raises SetupError when the file cannot be used, or has a state that the
    conductor alone decides about."""
    path, stopped = values["rpc.admin-state"], bool(values["sequencer.stopped"])
    if path is None or not values["sequencer.enabled"]:
        return stopped
    file = AdminStateFile(path)
    try:
        stored = file.load().active
        if values["conductor.enabled"]:
            if stored is not None:
                raise SetupError(
                    f"config persistence must be disabled when conductor is enabled: remove --rpc.admin-state={path}"
                )
            return stopped
        if stored is not None and stored == stopped:
            begins = "started" if stored else "stopped"
            notice(
                Notice(Level.WARN, f"the sequencer begins {begins}, as {path} has it, whatever sequencer.stopped says")
            )
            stopped = not stored
        file.store(active=not stopped)
    except StoreFailedError as error:
        raise SetupError(f"{error} (--rpc.admin-state)") from None
    return stopped


def check_interop_store(config: InteropProcessConfig) -> None:
    """Open and close the interop database as `check_state_files` does with those of a chain [VDB2]."""
    try:
        InteropStore(config.store_path, config.dependency_set, check=True).close()
    except StoreError as error:
        raise SetupError(str(error)) from None


def check_state_files(config: P2pConfig | None, rollup: RollupConfig, safedb_path: str | None) -> None:
    """Open and close the databases that are used, and create those that are missing.

    Peerstore, discovery, signed blocks, safe heads. Raises SetupError when one is damaged, belongs to another node,
    or cannot be created."""
    try:
        if config is not None:
            PeerStore(config.peerstore_path).close()
            if not config.no_discovery:
                NodeDatabase(config.discovery_path).close()
            if config.has_signer:
                SignedBlocksFile(rollup.genesis.l2.hash, config.signed_blocks_path).close()
        if safedb_path is not None:
            SafeHeadStore(safedb_path, rollup, check=True).close()
    except StoreError as error:
        raise SetupError(str(error)) from None
