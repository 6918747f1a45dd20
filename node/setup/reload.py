"""The options of a running node, read again: what differs, and whether the node could work with it [LIF35]."""

import hashlib
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import msgspec

from rollup_node.node.options.errors import OptionError
from rollup_node.node.options.parsing import ParsedOptions
from rollup_node.node.options.reloading import changed_options, is_reloaded, with_reloaded
from rollup_node.node.options.rules import worker_count
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.values import Values
from rollup_node.node.setup.endpoint_checks import RetryPolicy, check_endpoints
from rollup_node.node.setup.plan import (
    NodeConfigs,
    NodePlan,
    NodeSecrets,
    endpoints_to_check,
    node_configs,
    plan_node,
    processes,
)
from rollup_node.node.setup.secrets import load_secrets
from rollup_node.node.setup.wrong_options import reject_wrong_options
from rollup_node.node.supervisor.settings import Reload
from rollup_node.stages.io.log.logger import Level

ONCE = RetryPolicy(total=0.0)
BEING_WRITTEN = "it is being written: reload again when it is complete"
MAX_FILE = 1 << 20

FileVersion = tuple[int, int, int]


class RunningOptions:
    """The options with which a node runs. `read` reads flags, variables, credentials and file again."""

    def __init__(self, values: Values, read: Callable[[], ParsedOptions]) -> None:
        self.values, self._read = values, read

    def started(self, plan: NodePlan, secrets: NodeSecrets, configs: NodeConfigs) -> None:
        """Note what the node was made of."""
        self._plan, self._secrets, self._configs = plan, secrets, configs
        self._authorities = _authorities(plan)

    def reload(self) -> Reload:
        """Return what differs now. Raises SetupError for options with which the node could not start, or not go on.

        Nothing is written, and no secret made."""
        path, version = self.values["config"], self._file_version()
        parsed = self._read()
        reject_wrong_options(parsed)
        new, old = parsed.values, self.values
        differing = changed_options(old, new)
        plan = self._new_plan(with_reloaded(old, new))
        plan_node(new)
        secrets = load_secrets(plan, lambda notice: None, may_create=False)
        configs = node_configs(plan, secrets)
        stopped = self._configs.engine.sequencer_stopped
        configs = replace(configs, engine=msgspec.structs.replace(configs.engine, sequencer_stopped=stopped))
        running, wanted = configs_by_process(self._plan, self._configs), configs_by_process(plan, configs)
        differing_configs = {process: config for process, config in wanted.items() if config != running[process]}
        authorities = _authorities(plan)
        if authorities != self._authorities and configs.p2p is not None:
            differing_configs["p2p", plan.group] = configs.p2p
        before = endpoints_to_check(self._plan, self._configs, self._secrets)
        after = endpoints_to_check(plan, configs, secrets)

        def commit() -> None:
            if self._file_version() != version:
                raise OptionError(f"--config {path}: {BEING_WRITTEN}")
            self.values, self._authorities = plan.values, authorities
            self._plan, self._secrets, self._configs = plan, secrets, configs

        level: Level | None = new["log.level"] if "log.level" in differing else None
        return Reload(
            configs=differing_configs,
            level=level,
            changed=tuple(name for name in differing if is_reloaded(OPTIONS[name])),
            need_restart=tuple(name for name in differing if not is_reloaded(OPTIONS[name])),
            check=None if after == before else partial(check_endpoints, after, ONCE, before),
            commit=commit,
        )

    def _new_plan(self, values: Values) -> NodePlan:
        """Return the plan of these values, with what the start has chosen. Raises OptionError."""
        running, plan = self._plan, plan_node(values)
        if plan.chain != running.chain:
            raise OptionError("the files that describe the chain have changed since the start: restart the node")
        p2p, checkpoint = plan.p2p, plan.checkpoint
        if p2p is not None and running.p2p is not None:
            if p2p.has_signer is not running.p2p.has_signer:
                raise OptionError("whether this node signs blocks is decided at the start: restart the node")
            # The start has read the key: its file may change, the peer id may not.
            p2p = msgspec.structs.replace(p2p, priv_raw=self._secrets.network_key)
        if checkpoint is not None and running.checkpoint is not None:
            checkpoint = msgspec.structs.replace(checkpoint, root=running.checkpoint.root)
        return replace(plan, p2p=p2p, checkpoint=checkpoint, runtime_dir=running.runtime_dir)

    def _file_version(self) -> FileVersion | None:
        """Return what differs once the options file is written. Raises OptionError where it cannot be read again."""
        path: str | None = self.values["config"]
        if path is None:
            return None
        try:
            state = os.stat(path)
        except OSError as error:
            raise OptionError(f"--config {path}: {str(error.strerror).lower()}") from None
        if not stat.S_ISREG(state.st_mode):
            raise OptionError(f"--config {path}: it is no file, and cannot be read again")
        if state.st_size == 0:
            raise OptionError(f"--config {path}: it is empty; if no option is wanted, it takes a comment")
        return state.st_ino, state.st_size, state.st_mtime_ns


def configs_by_process(plan: NodePlan, configs: NodeConfigs) -> dict[tuple[str, str], object]:
    """Return the configurations of a node of that one chain by role and group."""
    specs = processes({plan.group: configs}, worker_count(plan.values))
    return {(spec.role, spec.group): spec.config for spec in specs}


def _authorities(plan: NodePlan) -> str:
    """Return a digest of the signer's CA, which the p2p process reads once; empty without one."""
    signer = None if plan.p2p is None else plan.p2p.signer
    if signer is None or not signer.tls_enabled:
        return ""
    with suppress(OSError), open(signer.tls_ca, "rb") as file:
        return hashlib.sha256(file.read(MAX_FILE)).hexdigest()
    return ""
