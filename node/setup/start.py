"""Starts a node: plan, secrets, state files, ports, supervisor; so errors in options leave no files behind."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import msgspec

from rollup_node.node.checks.finding import check_ports, require
from rollup_node.node.options.parsing import ParsedOptions
from rollup_node.node.options.rules import worker_count
from rollup_node.node.setup.bundles import check_folder_of_choice
from rollup_node.node.setup.endpoint_checks import check_chains
from rollup_node.node.setup.interop import InteropPlan, interop_config
from rollup_node.node.setup.notices import Notice, introduction, log_notices, schedule_notices
from rollup_node.node.setup.plan import (
    NodeConfigs,
    NodePlan,
    NodeSecrets,
    endpoints_to_check,
    listeners,
    node_configs,
    node_settings,
    plan_node,
    processes,
)
from rollup_node.node.setup.reload import RunningOptions, configs_by_process
from rollup_node.node.setup.secrets import load_secrets
from rollup_node.node.setup.state_files import check_interop_store, check_state_files, sequencer_stopped
from rollup_node.node.supervisor.supervisor import run_node
from rollup_node.node.system.exit_codes import RESTART
from rollup_node.node.system.log_file import log_file
from rollup_node.stages.io.log.logger import Level, get_logger

Plans = tuple[Sequence[NodePlan], InteropPlan | None]
"""The plan of each chain of a node, and what verifies their messages, if anything does."""


def start_node(parsed: ParsedOptions, read: Callable[[], ParsedOptions]) -> int:
    """Run a node, again when it asks for a new start, and log its warnings; its exit code. Raises SetupError.

    `read` reads the options again for a reload."""
    options = RunningOptions(parsed.values, read)
    return start_chains(lambda: ([plan_node(options.values)], None), parsed.warnings, options)


def start_chains(plan: Callable[[], Plans], warnings: Sequence[str], options: RunningOptions | None = None) -> int:
    """Run a node of the chains that `plan` returns, again when it asks for a new start. Raises SetupError.

    `options` are those that can be reloaded, of a node of one chain."""
    while (code := _run(plan, warnings, options)) == RESTART:
        continue
    return code


def _run(plan_again: Callable[[], Plans], warnings: Sequence[str], options: RunningOptions | None) -> int:
    plans, interop = plan_again()
    notices = [Notice(Level.WARN, text) for text in warnings]
    chains: dict[str, NodeConfigs] = {}
    secrets_of: dict[str, NodeSecrets] = {}
    endpoints = []
    for plan in plans:
        values = plan.values
        notices += plan.notices
        secrets_of[plan.group] = secrets = load_secrets(plan, notices.append)
        check_state_files(plan.p2p, plan.chain.config, None if values["l2.follow.source"] else values["safedb.path"])
        check_folder_of_choice(values)
        stopped = sequencer_stopped(values, notices.append)
        chains[plan.group] = configs = _configs(plan, secrets, interop, stopped)
        endpoints.append(endpoints_to_check(plan, configs, secrets))
        if options is not None:
            options.started(plan, secrets, chains[plan.group])
    verifier = None if interop is None else interop_config(interop, chains)
    if verifier is not None:
        check_interop_store(verifier)
    require(
        check_ports(list(dict.fromkeys(item for chain in chains.values() for item in listeners(chain)))),
        get_logger("start"),
    )

    def renew_chain(group: str) -> Mapping[str, object]:
        """Return the configurations of a chain's processes by its files as they are now [UPG26]."""
        again, _ = plan_again()
        (plan,) = (replace(plan, runtime_dir=plans[0].runtime_dir) for plan in again if plan.group == group)
        configs = _configs(plan, secrets_of[group], interop, chains[group].engine.sequencer_stopped)
        return {role: config for (role, of), config in configs_by_process(plan, configs).items() if of == group}

    settings = node_settings(plans[0], chains.values(), partial(check_chains, endpoints))
    file = log_file(settings.log)
    reload = None if options is None else options.reload
    settings = replace(settings, reload=reload, renew_chain=renew_chain, log_file=file)
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
        return run_node(processes(chains, worker_count(plans[0].values), verifier), settings)
    finally:
        if file is not None:
            file.close()


def _configs(plan: NodePlan, secrets: NodeSecrets, interop: InteropPlan | None, is_stopped: bool) -> NodeConfigs:
    """Return the configurations of a chain's processes; `is_stopped`: its sequencer begins stopped."""
    configs = node_configs(plan, secrets, verified=interop is not None and plan.l2_chain_id in interop.members)
    return replace(configs, engine=msgspec.structs.replace(configs.engine, sequencer_stopped=is_stopped))
