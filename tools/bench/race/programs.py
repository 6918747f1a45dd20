"""The nodes that take part in a race, and how their users start them."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.server import Listening

OURS, SUPERNODE, THEIRS, LIMIT = "rollup-node", "supernode", "op-node", "limit"


class Place(NamedTuple):
    """Where a node runs: the servers, the port of its RPC server, and a folder of its own."""

    servers: Listening
    rpc_port: int
    folder: Path


class RaceProgram(NamedTuple):
    """A node: its name, its command line, and whether it follows all chains of a course and not the first alone."""

    name: str
    command: Callable[[CourseFiles, Place], Sequence[str]]
    all_chains: bool = False

    def followed(self, course: CourseFiles) -> list[CourseFiles]:
        """Return the chains that it follows."""
        return [course, *(course.further if self.all_chains else ())]


def _shared(place: Place) -> dict[str, str]:
    """Return the options that concern no chain."""
    return {
        "l1": place.servers.l1,
        "l1.beacon": place.servers.beacon,
        "l1.trustrpc": "false",
        "l1.rpckind": "standard",
        "rpc.addr": "127.0.0.1",
        "rpc.port": str(place.rpc_port),
    }


def _of_chain(course: CourseFiles, engine: str) -> dict[str, str]:
    """Return the options of a chain."""
    return {
        "l2": engine,
        "l2.jwt-secret": str(course.jwt),
        "rollup.config": str(course.rollup),
        "syncmode": "consensus-layer",
        "p2p.disable": "true",
    }


def _common(course: CourseFiles, place: Place) -> dict[str, str]:
    """Return the options that both nodes have."""
    return _shared(place) | _of_chain(course, place.servers.engine)


def _own(place: Place) -> dict[str, str]:
    """Return the options of our programs. Ready is when the processes work, not when the course is derived."""
    return {"runtime.dir": str(place.folder / "run"), "rpc.ready-l1-lag": "0"}


def _arguments(options: dict[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in options.items()]


def rollup_node(extra: Sequence[str]) -> RaceProgram:
    """Return this node, with further arguments."""

    def command(course: CourseFiles, place: Place) -> list[str]:
        options = _common(course, place) | _own(place)
        return [sys.executable, "-m", "rollup_node", *_arguments(options), *extra]

    return RaceProgram(OURS, command)


def supernode(extra: Sequence[str]) -> RaceProgram:
    """Return this node with all chains of a course, with further arguments."""

    def command(course: CourseFiles, place: Place) -> list[str]:
        chains = [course, *course.further]
        options = _shared(place) | _own(place) | {"data-dir": str(place.folder / "data")}
        options["chains"] = ",".join(str(chain.config.l2_chain_id) for chain in chains)
        for chain, engine in zip(chains, place.servers.engines, strict=True):
            for name, value in _of_chain(chain, engine).items():
                options[f"vn.{chain.config.l2_chain_id}.{name}"] = value
        return [sys.executable, "-m", "rollup_node", "supernode", *_arguments(options), *extra]

    return RaceProgram(SUPERNODE, command, all_chains=True)


def op_node(path: Path) -> RaceProgram:
    """Return an op-node binary. It runs in another directory, so its path is made absolute."""
    binary = path.resolve()

    def command(course: CourseFiles, place: Place) -> list[str]:
        return [str(binary), *_arguments(_common(course, place))]

    return RaceProgram(THEIRS, command)


def limit() -> RaceProgram:
    """Return the plain client that sends the calls of a course back to back: no node is faster with its engine."""

    def command(course: CourseFiles, place: Place) -> list[str]:
        arguments = [place.servers.engine, str(place.rpc_port), str(course.rollup.parent)]
        return [sys.executable, "-m", "rollup_node.tools.bench.race.plain_client", *arguments]

    return RaceProgram(LIMIT, command)


_TICKS = os.sysconf("SC_CLK_TCK")


class CpuUsage(NamedTuple):
    """CPU seconds of the running processes by name, and with those of their children that have ended."""

    by_process: dict[str, float]
    total: float


def process_tree(pid: int) -> list[int]:
    """Return a process and its descendants."""
    children: dict[int, list[int]] = {}
    for other, fields in _all_processes():
        children.setdefault(int(fields[1]), []).append(other)
    result = [pid]
    for item in result:
        result += children.get(item, ())
    return result


def cpu_usage(pid: int) -> CpuUsage:
    """Return the CPU of a process and its descendants since their start."""
    by_process: dict[str, float] = {}
    total = 0.0
    for item in process_tree(pid):
        try:
            name, fields = name_of(item), _stat(item)
        except OSError:
            continue
        user, system, ended_user, ended_system = (int(field) / _TICKS for field in fields[11:15])
        by_process[name] = by_process.get(name, 0.0) + user + system
        total += user + system + ended_user + ended_system
    return CpuUsage(by_process, total)


def memory_of_tree(pid: int) -> float:
    """Return the memory in MiB of a process and its descendants, as `memory_of` does."""
    return memory_of(process_tree(pid))


def memory_of(processes: Sequence[int]) -> float:
    """Return the memory in MiB of processes, without those that have ended.

    Shared pages are divided among those who share them (PSS)."""
    total = 0
    for item in processes:
        try:
            lines = Path(f"/proc/{item}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def name_of(pid: int) -> str:
    """Return the name of a process: its title after a colon, or the file name of its program. Raises OSError."""
    title = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode(errors="replace")
    program, _, role = title.partition(": ")
    return role if role and "\0" not in program else Path(title.split("\0")[0]).name


def _all_processes() -> Iterator[tuple[int, list[str]]]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                yield int(entry), _stat(int(entry))
            except OSError:
                continue


def _stat(pid: int) -> list[str]:
    # The command name before the last bracket may contain spaces: the state follows as the first field.
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
