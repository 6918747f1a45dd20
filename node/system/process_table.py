"""The process table: every process of a node but its supervisor, in the order of their start."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class ProcessSpec:
    """A process that is ready to be started.

    `build` is the import path `module:function` of the stage's `build(config, bus, meter)`. Before its first fork the
    supervisor imports that module and those of `preload`, so that every later start is a bare fork. Each of the
    `copies` has a slot of its own; `numbered` shows its number in the name. `stop_timeout` in seconds bounds an orderly
    stop. `max_cpu` are the seconds of CPU time without a heartbeat after which it counts as hung, None for those of the
    restart policy. One that `outlives_halt` is stopped last when the node halts. A `one_shot` process ends the node
    with its own exit code instead of being restarted. `keep_fds` are descriptors of the supervisor that the process
    inherits, such as the output of a command. `group` is the L2 chain id of a process that works for one of several
    chains, else empty [LIF33]."""

    role: str
    build: str
    config: object
    copies: int = 1
    numbered: bool = False
    preload: tuple[str, ...] = ()
    stop_timeout: float = 3.0
    max_cpu: float | None = None
    outlives_halt: bool = False
    one_shot: bool = False
    keep_fds: tuple[int, ...] = ()
    group: str = ""

    @property
    def role_and_group(self) -> str:
        """What it is called without its number: its role, and the chain that it works for."""
        return f"{self.role}.{self.group}" if self.group else self.role

    def name(self, copy: int) -> str:
        """Return the name of a copy in logs, titles and metrics."""
        return f"{self.role_and_group}-{copy}" if self.numbered else self.role_and_group


MAX_TASK_CPU = 120.0
"""Seconds of CPU time of a task. The channel that takes longest to decode, 33 million transactions, takes about 20."""


def _stage(role: str, **fields: Any) -> ProcessSpec:
    return ProcessSpec(role, f"rollup_node.stages.{role}.process.stage:build", None, **fields)


PROCESSES: tuple[ProcessSpec, ...] = (
    _stage("l1", preload=("zmq", "msgspec", "orjson")),
    _stage("blobs"),
    _stage("derivation", preload=("brotli",)),
    _stage("compute", preload=("ckzg",), max_cpu=MAX_TASK_CPU, numbered=True),
    _stage("engine", preload=("jwt", "sqlite3")),
    _stage("interop", preload=("jwt", "sqlite3")),
    _stage("p2p", preload=("cryptography", "cramjam", "sqlite3")),
    _stage("rpc", preload=("aiohttp.web",), outlives_halt=True),
)
"""What is the same in every node, without the configs."""
REQUIRED = {"l1", "engine", "rpc"}
"""The others run only in nodes that have a config for them."""


def node_processes(configs: Mapping[str, Mapping[str, object]], workers: int) -> tuple[ProcessSpec, ...]:
    """Return the processes of the table that have a config, with `workers` compute processes (at least 1).

    The configs are by group and role. The group "" has those of the shared roles, and those of its chain if there is
    one; else each chain has a group by its L2 chain id."""
    return tuple(
        replace(spec, config=by_role[spec.role], group=group, copies=workers if spec.numbered else 1)
        for spec in PROCESSES
        for group, by_role in configs.items()
        if spec.role in by_role
    )


def load(path: str) -> Callable[..., object]:
    """Return the function with the import path `module:function`."""
    module, _, name = path.partition(":")
    result: Callable[..., object] = getattr(importlib.import_module(module), name)
    return result
