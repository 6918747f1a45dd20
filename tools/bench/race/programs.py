"""The nodes that take part in a race, and how their users start them."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.server import Listening

OURS, THEIRS = "rollup-node", "op-node"


class Place(NamedTuple):
    """Where a node runs: the servers, the port of its RPC server, and a folder of its own."""

    servers: Listening
    rpc_port: int
    folder: Path


class RaceProgram(NamedTuple):
    """A node: its name, and its command line."""

    name: str
    command: Callable[[CourseFiles, Place], Sequence[str]]


def _common(course: CourseFiles, place: Place) -> dict[str, str]:
    """Return the options that both nodes have."""
    return {
        "l1": place.servers.l1,
        "l1.beacon": place.servers.beacon,
        "l1.trustrpc": "false",
        "l1.rpckind": "standard",
        "l2": place.servers.engine,
        "l2.jwt-secret": str(course.jwt),
        "rollup.config": str(course.rollup),
        "syncmode": "consensus-layer",
        "rpc.addr": "127.0.0.1",
        "rpc.port": str(place.rpc_port),
        "p2p.disable": "true",
    }


def _arguments(options: dict[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in options.items()]


def rollup_node(extra: Sequence[str]) -> RaceProgram:
    """Return this node, with further arguments."""

    def command(course: CourseFiles, place: Place) -> list[str]:
        options = _common(course, place) | {"runtime.dir": str(place.folder / "run")}
        # Ready is when the processes work, not when the course is derived.
        options["rpc.ready-l1-lag"] = "0"
        return [sys.executable, "-m", "rollup_node.node", *_arguments(options), *extra]

    return RaceProgram(OURS, command)


def op_node(path: Path) -> RaceProgram:
    """Return an op-node binary. It runs in another directory, so its path is made absolute."""
    binary = path.resolve()

    def command(course: CourseFiles, place: Place) -> list[str]:
        return [str(binary), *_arguments(_common(course, place))]

    return RaceProgram(THEIRS, command)
