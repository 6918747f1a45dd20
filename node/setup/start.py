"""Starts a node: plan, secrets, state files, ports, supervisor; so errors in options leave no files behind."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from rollup_node.node.checks.finding import check_ports, require
from rollup_node.node.options.parsing import ParsedOptions
from rollup_node.node.options.supernode import errors_of_chain
from rollup_node.node.options.values import NodeOptions
from rollup_node.node.setup.bundles import check_folder_of_choice
from rollup_node.node.setup.endpoint_checks import check_chains
from rollup_node.node.setup.notices import Notice, introduction, log_notices, schedule_notices
from rollup_node.node.setup.plan import NodeSecrets, listeners, node_settings, plan_node
from rollup_node.node.setup.reload import ConfiguredNode, RunningOptions
from rollup_node.node.setup.secrets import load_secrets
from rollup_node.node.setup.state_files import check_interop_store, check_state_files, sequencer_stopped
from rollup_node.node.setup.wrong_options import reject_wrong_options
from rollup_node.node.supervisor.supervisor import run_node
from rollup_node.node.system.exit_codes import RESTART
from rollup_node.node.system.log_file import log_file
from rollup_node.stages.io.log.logger import Level, get_logger


def start_node(parsed: ParsedOptions, read: Callable[[], ParsedOptions]) -> int:
    """Run a node, again when it asks for a new start, and log its warnings; its exit code. Raises SetupError.

    `read` reads the options again for a reload."""

    def read_again() -> NodeOptions:
        reject_wrong_options(parsed := read())
        return parsed.node

    return start_chains(RunningOptions(parsed.node, read_again, lambda new: ([plan_node(new.chains[""])], None)))


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
        get_logger("start"),
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
