"""The process table: every process of a node but its supervisor, in the order of their start."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessSpec:
    """A process that is ready to be started.

    `build` is the import path `module:function` of the stage's `build(config, bus, meter)`. Before its first fork the
    supervisor imports that module and those of `preload`, so that every later start is a bare fork. Each of the
    `copies` has a slot of its own; `numbered` shows its number in the name. `stop_timeout` in seconds bounds an orderly
    stop. `max_cpu` are the seconds of CPU time without a heartbeat after which it counts as hung, None for those of the
    restart policy. One that `outlives_halt` is stopped last when the node halts. A `one_shot` process ends the node
    with its own exit code instead of being restarted. `keep_fds` are
    descriptors of the supervisor that the process inherits, such as the output of a command."""

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

    def name(self, copy: int) -> str:
        """Return the name of a copy in logs, titles and metrics."""
        return f"{self.role}-{copy}" if self.numbered else self.role


@dataclass(frozen=True)
class ProcessTemplate:
    """What is the same for a process in every node.

    An `optional` process runs only in nodes that have a config for it; a `numbered` one has as many copies as
    workers."""

    role: str
    preload: tuple[str, ...] = ()
    max_cpu: float | None = None
    numbered: bool = False
    optional: bool = False
    outlives_halt: bool = False

    @property
    def build(self) -> str:
        """The import path of the stage's `build`."""
        return f"rollup_node.stages.{self.role}.process.stage:build"

    def spec(self, config: object, workers: int) -> ProcessSpec:
        """Return the process with that config."""
        return ProcessSpec(
            role=self.role,
            build=self.build,
            config=config,
            copies=workers if self.numbered else 1,
            numbered=self.numbered,
            preload=self.preload,
            max_cpu=self.max_cpu,
            outlives_halt=self.outlives_halt,
        )


MAX_TASK_CPU = 120.0
"""Seconds of CPU time of a task. The channel that takes longest to decode, 33 million transactions, takes about 20."""

KEYS = "rollup_node.stages.protocol.keys"

PROCESSES: tuple[ProcessTemplate, ...] = (
    ProcessTemplate("l1", preload=("zmq", "msgspec", "orjson", KEYS)),
    ProcessTemplate("blobs", optional=True),
    ProcessTemplate("derivation", preload=("brotlicffi",), optional=True),
    ProcessTemplate("compute", preload=("ckzg",), max_cpu=MAX_TASK_CPU, numbered=True, optional=True),
    ProcessTemplate("engine", preload=("sqlite3",)),
    ProcessTemplate("p2p", preload=("cryptography", KEYS, "cramjam", "sqlite3"), optional=True),
    ProcessTemplate("rpc", preload=("aiohttp.web",), outlives_halt=True),
)


def node_processes(configs: Mapping[str, object], workers: int) -> tuple[ProcessSpec, ...]:
    """Return the processes of a node, given the config of each role and the number of compute processes (at least 1).

    Raises ValueError when a config is missing or has no process."""
    required = {template.role for template in PROCESSES if not template.optional}
    if not required <= set(configs) <= {template.role for template in PROCESSES}:
        raise ValueError(f"the configs are those of {', '.join(configs)}, required are {', '.join(sorted(required))}")
    return command_processes(configs, workers)


def command_processes(configs: Mapping[str, object], workers: int) -> tuple[ProcessSpec, ...]:
    """Those processes of the table that have a config, for a command that needs no others."""
    return tuple(template.spec(configs[template.role], workers) for template in PROCESSES if template.role in configs)


def load(path: str) -> Callable[..., object]:
    """Return the function with the import path `module:function`."""
    module, _, name = path.partition(":")
    found: Callable[..., object] = getattr(importlib.import_module(module), name)
    return found
