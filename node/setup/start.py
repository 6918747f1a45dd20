"""Starts a node: plan, secrets, state files, ports, supervisor; so errors in options leave no files behind."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import msgspec

from rollup_node.node.checks.finding import check_ports, require
from rollup_node.node.options.rules import worker_count
from rollup_node.node.options.values import Values
from rollup_node.node.setup.bundles import check_folder_of_choice
from rollup_node.node.setup.endpoint_checks import check_chains
from rollup_node.node.setup.interop import InteropPlan, interop_config
from rollup_node.node.setup.notices import Notice, introduction, log_notices, schedule_notices
from rollup_node.node.setup.plan import (
    NodeConfigs,
    NodePlan,
    endpoints_to_check,
    listeners,
    node_configs,
    node_settings,
    plan_node,
    processes,
)
from rollup_node.node.setup.secrets import load_secrets
from rollup_node.node.setup.state_files import check_state_files, sequencer_stopped
from rollup_node.node.supervisor.supervisor import run_node
from rollup_node.node.system.exit_codes import RESTART
from rollup_node.stages.io.log.logger import Level, get_logger

Plans = tuple[Sequence[NodePlan], InteropPlan | None]
"""The plan of each chain of a node, and what verifies their messages, if anything does."""


def start_node(values: Values, warnings: Sequence[str]) -> int:
    """Run a node, again when it asks for a new start, and log `warnings`; its exit code. Raises SetupError."""
    return start_chains(lambda: ([plan_node(values)], None), warnings)


def start_chains(plan: Callable[[], Plans], warnings: Sequence[str]) -> int:
    """Run a node of the chains that `plan` returns, again when it asks for a new start. Raises SetupError."""
    while (code := _run(*plan(), warnings)) == RESTART:
        continue
    return code


def _run(plans: Sequence[NodePlan], interop: InteropPlan | None, warnings: Sequence[str]) -> int:
    notices = [Notice(Level.WARN, text) for text in warnings]
    chains: dict[str, NodeConfigs] = {}
    endpoints = []
    for plan in plans:
        values = plan.values
        notices += plan.notices
        secrets = load_secrets(plan, notices.append)
        check_state_files(plan.p2p, plan.chain.config, None if values["l2.follow.source"] else values["safedb.path"])
        check_folder_of_choice(values)
        stopped = sequencer_stopped(values, notices.append)
        configs = node_configs(plan, secrets, verified=interop is not None and plan.l2_chain_id in interop.members)
        engine = msgspec.structs.replace(configs.engine, sequencer_stopped=stopped)
        chains[plan.group] = replace(configs, engine=engine)
        endpoints.append(endpoints_to_check(plan, configs, secrets))
    require(
        check_ports(list(dict.fromkeys(item for chain in chains.values() for item in listeners(chain)))),
        get_logger("start"),
    )
    settings = node_settings(plans[0], chains.values(), partial(check_chains, endpoints))
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
    verifier = None if interop is None else interop_config(interop, chains)
    return run_node(processes(chains, worker_count(plans[0].values), verifier), settings)
