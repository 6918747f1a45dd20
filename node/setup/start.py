"""Starts a node: plan, secrets, state files, ports, supervisor; so errors in options leave no files behind."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from rollup_node.node.checks.finding import check_ports, require
from rollup_node.node.options.parsing import ParsedOptions
from rollup_node.node.setup.bundles import check_folder_of_choice
from rollup_node.node.setup.notices import Notice, introduction, log_notices, schedule_notices
from rollup_node.node.setup.plan import listeners, node_configs, node_settings, plan_node, processes
from rollup_node.node.setup.reload import RunningOptions
from rollup_node.node.setup.secrets import load_secrets
from rollup_node.node.setup.state_files import check_state_files, sequencer_stopped
from rollup_node.node.supervisor.supervisor import run_node
from rollup_node.node.system.exit_codes import RESTART
from rollup_node.node.system.log_file import LogFile
from rollup_node.stages.io.log.logger import Level, get_logger


def start_node(parsed: ParsedOptions, read: Callable[[], ParsedOptions]) -> int:
    """Run a node, again when it asks for a new start, and log its warnings; its exit code. Raises SetupError.

    `read` reads the options again for a reload."""
    options = RunningOptions(parsed.values, read)
    while (code := _run(options, parsed.warnings)) == RESTART:
        continue
    return code


def _run(options: RunningOptions, warnings: Sequence[str]) -> int:
    values = options.values
    plan = plan_node(values)
    notices = [*(Notice(Level.WARN, text) for text in warnings), *plan.notices]
    secrets = load_secrets(plan, notices.append)
    check_state_files(plan.p2p, plan.chain.config, None if values["l2.follow.source"] else values["safedb.path"])
    check_folder_of_choice(values)
    stopped = sequencer_stopped(values, notices.append)
    configs = node_configs(plan, secrets)
    configs = replace(configs, engine=msgspec.structs.replace(configs.engine, sequencer_stopped=stopped))
    require(check_ports(listeners(configs)), get_logger("start"))
    options.started(plan, secrets, configs)
    settings = node_settings(plan, configs, secrets)
    file = None
    if (path := settings.log.file) is not None:
        file = LogFile(path, settings.log.file_mebibytes << 20, settings.log.file_parts)
    settings = replace(settings, reload=options.reload, log_file=file)
    now = time.time()
    log_notices([*introduction(values, plan.chain, now), *schedule_notices(plan.chain, now), *notices], settings)
    try:
        return run_node(processes(plan, configs), settings)
    finally:
        if file is not None:
            file.close()
