"""The settings of the supervisor."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rollup_node.ipc.bus.channels import Channel
from rollup_node.node.supervisor.watchdog import RestartPolicy
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.node.system.log_pipes import LogFile
from rollup_node.node.system.metrics_file import WRITE_SECONDS
from rollup_node.node.system.profiling import ProfilingSettings
from rollup_node.node.system.runtime_dir import runtime_path
from rollup_node.stages.io.log.logger import Level
from rollup_node.stages.topology import CHANNELS

PrecheckFunction = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Reload:
    """New options: the configurations that differ by role and group, and the level of the log, None for the same.

    `changed` are the options that are taken over, `need_restart` those that are not. `check` raises SetupError where
    the node could not work with them, None if nothing is to be checked. `commit` makes them those of the running node,
    or raises SetupError."""

    configs: Mapping[tuple[str, str], object]
    level: Level | None
    changed: tuple[str, ...]
    need_restart: tuple[str, ...]
    check: PrecheckFunction | None
    commit: Callable[[], None]


@dataclass(frozen=True)
class NodeSettings:
    """How a node is run; `chains` is what metrics call its chains [MET30], `tracing` the address of a collector [TRC1].

    `precheck` runs once, in a process of its own, before the others; it ends the start by raising SetupError. Log lines
    go to the descriptor `log_output`, and to `log_file` as well. `connections` is how many connections to clients and
    peers one process needs at least. When the node halts, the processes that outlive it go on for `halt_seconds`. Each
    process writes its metrics every `metrics_period` seconds. `reload` reads the options again, and raises SetupError
    where they are wrong; None where that is not possible. `renew_chain` makes the configurations of one chain's
    processes by role again, and raises SetupError."""

    version: str
    log: LogSettings = field(default_factory=LogSettings)
    runtime_dir: Path = field(default_factory=runtime_path)
    precheck: PrecheckFunction | None = None
    channels: tuple[Channel, ...] = CHANNELS
    restart_policy: RestartPolicy = field(default_factory=RestartPolicy)
    log_output: int = 1
    connections: int = 0
    halt_seconds: float = 0.0
    metrics_period: float = WRITE_SECONDS
    profiling: ProfilingSettings = field(default_factory=ProfilingSettings)
    reload: Callable[[], Reload] | None = None
    renew_chain: Callable[[str], Mapping[str, object]] | None = None
    log_file: LogFile | None = None
    chains: tuple[str, ...] = ()
    tracing: str = ""
