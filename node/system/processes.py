"""The process table: every process of a node but its supervisor, in the order of their start."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One row of the process table, ready to run.

    `build` is the import path `module:function` of the stage's `build(config, bus, meter)`. Before its first fork
    the supervisor imports that module and `preload`, and calls `prepare`, so that every later start is a bare fork.
    A `numbered` row shows its copy's number in its name. `stop` is the time in seconds it has to end when asked.
    `one_shot` rows end the node with their own exit code instead of being restarted; `keep` are further descriptors
    of the supervisor that the process may use, such as the output of a command."""

    role: str
    build: str
    config: object
    copies: int = 1
    numbered: bool = False
    preload: tuple[str, ...] = ()
    prepare: Callable[[], object] | None = None
    stop: float = 3.0
    one_shot: bool = False
    keep: tuple[int, ...] = ()

    def name(self, copy: int) -> str:
        """What logs, titles and metrics call a copy."""
        return f"{self.role}-{copy}" if self.numbered else self.role


@dataclass(frozen=True)
class ProcessKind:
    """What is always the same about a row; `prepare` is the import path of a function without arguments. An `optional`
    row runs only in nodes that have a config for it."""

    role: str
    preload: tuple[str, ...] = ()
    prepare: str | None = None
    numbered: bool = False
    optional: bool = False

    @property
    def build(self) -> str:
        """Where the stage of this role is made."""
        return f"rollup_node.stages.{self.role}.process.stage:build"


PROCESSES: tuple[ProcessKind, ...] = (
    ProcessKind("l1", preload=("zmq", "msgspec", "orjson", "aiohttp", "coincurve")),
    ProcessKind("blobs", preload=("aiohttp",)),
    ProcessKind("derivation", preload=("brotlicffi",)),
    ProcessKind("compute", preload=("ckzg",), prepare="rollup_node.stages.blobs.kzg:load_setup", numbered=True),
    ProcessKind("engine", preload=("aiohttp", "jwt")),
    ProcessKind("p2p", preload=("cryptography", "coincurve", "cramjam", "sqlite3"), optional=True),
    ProcessKind("rpc", preload=("aiohttp.web",)),
)


def node_rows(configs: Mapping[str, object], workers: int) -> tuple[Row, ...]:
    """The rows of a real node, given each role's config and the number of compute processes (at least 1)."""
    needed = [kind.role for kind in PROCESSES if not kind.optional]
    if not set(needed) <= set(configs) <= {kind.role for kind in PROCESSES}:
        raise ValueError(f"configs are needed for {', '.join(needed)}")
    return tuple(row_of(kind, configs[kind.role], workers) for kind in PROCESSES if kind.role in configs)


def row_of(kind: ProcessKind, config: object, workers: int) -> Row:
    """The row of one kind of process."""
    return Row(
        role=kind.role,
        build=kind.build,
        config=config,
        copies=workers if kind.numbered else 1,
        numbered=kind.numbered,
        preload=kind.preload,
        prepare=_caller(kind.prepare) if kind.prepare else None,
    )


def load(path: str) -> Callable[..., object]:
    """The function that an import path `module:function` names."""
    module, _, name = path.partition(":")
    found: Callable[..., object] = getattr(importlib.import_module(module), name)
    return found


def _caller(path: str) -> Callable[[], object]:
    return lambda: load(path)()
