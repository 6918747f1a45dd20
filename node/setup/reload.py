"""The options of a running node, read again: what differs, and whether the node could work with it [LIF35]."""

import hashlib
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import msgspec

from rollup_node.node.options.errors import OptionError
from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.rules import worker_count
from rollup_node.node.options.supernode import errors_of_chain, is_shared
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.values import NodeOptions, Values
from rollup_node.node.setup.endpoint_checks import NodeEndpoints, RetryPolicy, check_chains
from rollup_node.node.setup.interop import InteropPlan, interop_config
from rollup_node.node.setup.plan import (
    NodeConfigs,
    NodePlan,
    NodeSecrets,
    endpoints_to_check,
    node_configs,
    processes,
)
from rollup_node.node.setup.secrets import load_secrets
from rollup_node.node.supervisor.settings import Reload
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.stages.blobs.config import BlobsConfig, DaServerConfig
from rollup_node.stages.interop.config import InteropProcessConfig
from rollup_node.stages.io.log.logger import Level
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.p2p.config import SignerConfig

ONCE = RetryPolicy(total=0.0)
BEING_WRITTEN = "it is being written: reload again when it is complete"
MAX_FILE = 1 << 20

FileVersion = tuple[int, int, int]


Plans = tuple[Sequence[NodePlan], InteropPlan | None]
"""The plan of each chain of a node, and what verifies their messages, if anything does."""


RELOADED_CONFIGS = (L1Config, BlobsConfig, DaServerConfig, SignerConfig)
"""All options of these configurations are taken over."""
RELOADED = frozenset(
    {
        *("log.level", "rpc.corsdomain", "rpc.jwt-secret", "rpc.vhosts"),
        *("rpc.ready-l1-lag", "rpc.ready-safe-age", "rpc.ready-unsafe-age"),
        *("l2.jwt-secret", "l2.jwt-secret-encoded", "l2.engine-rpc-timeout", "sequencer.max-safe-lag"),
        *("conductor.rpc", "conductor.rpc-timeout"),
        *("p2p.static", "p2p.bootnodes", "p2p.netrestrict", "p2p.sequencer.key", "p2p.sequencer.key.path"),
        *("p2p.ban.duration", "p2p.ban.peers", "p2p.ban.threshold", "p2p.gossip.timestamp.threshold"),
    }
)
"""Others that are taken over."""


def is_reloaded(option: AnyOption) -> bool:
    """Whether a running node takes over a new value of the option."""
    field = option.config_field
    return option.name in RELOADED or (field is not None and field[0] in RELOADED_CONFIGS)


class Change(NamedTuple):
    """An option whose value differs: how it is named, and whether the new value is taken over."""

    name: str
    is_reloaded: bool


def changes(old: NodeOptions, new: NodeOptions) -> list[Change]:
    """Return the options whose value differs, or that only one of the two gives.

    Those of a chain of a supernode are named `vn.CHAIN.NAME`; a chain that only one has is a change of `chains`."""
    result = [Change(name, False) for name in _differing(old.own, new.own)]
    for group, values in old.chains.items():
        for name in _differing(values, new.chains.get(group, values)):
            shown = f"vn.{group}.{name}" if group and not is_shared(name) else name
            result.append(Change(shown, is_reloaded(OPTIONS[name])))
    return list(dict.fromkeys(result))


def _differing(old: Values, new: Values) -> list[str]:
    return [name for name in old.names if (old.given(name), old[name]) != (new.given(name), new[name])]


def with_reloaded(old: NodeOptions, new: NodeOptions) -> NodeOptions:
    """Return the old options, with the new values of those that are taken over."""
    chains = {group: _mixed(values, new.chains.get(group, values)) for group, values in old.chains.items()}
    return old._replace(chains=chains)


def _mixed(old: Values, new: Values) -> Values:
    sources = {name: new if is_reloaded(option) else old for name, option in OPTIONS.items()}
    return Values({name: source.fields[name] for name, source in sources.items() if name in source.fields})


@dataclass(frozen=True)
class ConfiguredNode:
    """What a node is made of: its plans, and by group the secrets and whether the sequencer is stopped."""

    plans: Sequence[NodePlan]
    interop: InteropPlan | None
    secrets: Mapping[str, NodeSecrets]
    stopped: Mapping[str, bool]

    @cached_property
    def configs(self) -> dict[str, NodeConfigs]:
        """The configurations of each chain by group."""
        return {plan.group: self._configs_of(plan) for plan in self.plans}

    def _configs_of(self, plan: NodePlan) -> NodeConfigs:
        verified = self.interop is not None and plan.l2_chain_id in self.interop.members
        configs = node_configs(plan, self.secrets[plan.group], verified=verified)
        stopped = self.stopped[plan.group]
        return replace(configs, engine=msgspec.structs.replace(configs.engine, sequencer_stopped=stopped))

    @property
    def verifier(self) -> InteropProcessConfig | None:
        """The configuration of what verifies messages between the chains."""
        return None if self.interop is None else interop_config(self.interop, self.configs)

    @property
    def processes(self) -> tuple[ProcessSpec, ...]:
        """The processes of all chains."""
        return processes(self.configs, worker_count(self.plans[0].values), self.verifier)

    @property
    def endpoints(self) -> list[NodeEndpoints]:
        """The endpoints of each chain."""
        return [endpoints_to_check(plan, self.configs[plan.group], self.secrets[plan.group]) for plan in self.plans]


class RunningOptions:
    """The options with which a node runs. `read` reads flags, variables, credentials and file again, `plan` checks."""

    def __init__(
        self, options: NodeOptions, read: Callable[[], NodeOptions], plan: Callable[[NodeOptions], Plans]
    ) -> None:
        self.options, self._read, self._plan = options, read, plan

    def plans(self) -> Plans:
        """Return what a start makes of the options. Raises OptionError."""
        return self._plan(self.options)

    def started(self, node: ConfiguredNode) -> None:
        """Note what the node was made of."""
        self._node = node
        self._authorities = {plan.group: _authorities(plan) for plan in node.plans}

    def renew_chain(self, group: str) -> dict[str, object]:
        """Return the configurations of a chain's processes by role, by its files as they are now [UPG26].

        Raises SetupError."""
        plans, node = self.plans()[0], self._node
        renewed = {plan.group: plan for plan in plans}[group]
        plans = [self._as_started(renewed, plan) if plan.group == group else plan for plan in node.plans]
        self._node = replace(node, plans=plans)
        return {spec.role: spec.config for spec in self._node.processes if spec.group == group}

    def reload(self) -> Reload:
        """Return what differs now. Raises SetupError for options with which the node could not start, or not go on.

        Nothing is written, and no secret made."""
        version, running, new = self._file_version(), self._node, self._read()
        self._plan(new)
        differing, mixed = changes(self.options, new), with_reloaded(self.options, new)
        node = self._reconfigured(mixed)
        specs = {(spec.role, spec.group): spec.config for spec in running.processes}
        configs = {(spec.role, spec.group): spec.config for spec in node.processes}
        authorities = {plan.group: _authorities(plan) for plan in node.plans}
        signers = {("p2p", group) for group, digest in authorities.items() if digest != self._authorities[group]}

        def commit() -> None:
            if self._file_version() != version:
                raise OptionError(f"--config {self._file}: {BEING_WRITTEN}")
            self.options, self._node, self._authorities = mixed, node, authorities

        level: Level | None = None
        if any(change.name == "log.level" for change in differing):
            level = node.plans[0].values["log.level"]
        before, after = running.endpoints, node.endpoints
        return Reload(
            configs={key: config for key, config in configs.items() if config != specs[key] or key in signers},
            level=level,
            changed=tuple(change.name for change in differing if change.is_reloaded),
            need_restart=tuple(change.name for change in differing if not change.is_reloaded),
            check=None if after == before else partial(check_chains, after, ONCE, before),
            commit=commit,
        )

    def _reconfigured(self, options: NodeOptions) -> ConfiguredNode:
        """Return the node of these options, with what the start has chosen. Raises OptionError."""
        plans, interop = self._plan(options)
        new: list[NodePlan] = []
        secrets: dict[str, NodeSecrets] = {}
        for plan, running in zip(plans, self._node.plans, strict=True):
            with errors_of_chain(plan.group):
                new.append(self._new_plan(plan, running))
                secrets[plan.group] = load_secrets(new[-1], lambda notice: None, may_create=False)
        return ConfiguredNode(new, interop, secrets, self._node.stopped)

    def _new_plan(self, plan: NodePlan, running: NodePlan) -> NodePlan:
        if plan.chain != running.chain:
            raise OptionError("the files that describe the chain have changed since the start: restart the node")
        signs = [item.p2p is not None and item.p2p.has_signer for item in (plan, running)]
        if signs[0] is not signs[1]:
            raise OptionError("whether this node signs blocks is decided at the start: restart the node")
        return self._as_started(plan, running)

    def _as_started(self, plan: NodePlan, running: NodePlan) -> NodePlan:
        """Return a plan with what the start has chosen."""
        p2p, checkpoint = plan.p2p, plan.checkpoint
        if p2p is not None:
            # The start has read the key: its file may change, the peer id may not.
            p2p = msgspec.structs.replace(p2p, priv_raw=self._node.secrets[plan.group].network_key)
        if checkpoint is not None and running.checkpoint is not None:
            checkpoint = msgspec.structs.replace(checkpoint, root=running.checkpoint.root)
        return replace(plan, p2p=p2p, checkpoint=checkpoint, runtime_dir=running.runtime_dir)

    @property
    def _file(self) -> str | None:
        path: str | None = self.options.values["config"]
        return path

    def _file_version(self) -> FileVersion | None:
        """Return what differs once the options file is written. Raises OptionError where it cannot be read again."""
        if (path := self._file) is None:
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


def _authorities(plan: NodePlan) -> str:
    """Return a digest of the signer's CA, which the p2p process reads once; empty without one."""
    signer = None if plan.p2p is None else plan.p2p.signer
    if signer is None or not signer.tls_enabled:
        return ""
    with suppress(OSError), open(signer.tls_ca, "rb") as file:
        return hashlib.sha256(file.read(MAX_FILE)).hexdigest()
    return ""
