"""Measures one catch-up of a node over a course."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

import msgspec

from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.executed import FreshEngine
from rollup_node.tools.bench.race.node_run import running
from rollup_node.tools.bench.race.programs import CpuUsage, RaceProgram
from rollup_node.tools.bench.race.server import FirstAttributes, LastSafe

_BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"


class RaceRun(msgspec.Struct):
    """One catch-up.

    Times in seconds since the node's start, CPU in milliseconds per L2 block from the first attributes on; `cpu_s`
    is the node's CPU from its start to the end, `end_s` when the last block was safe. `pss_mb` is the most that was
    seen in all processes. `engine_cpu_ms_per_block` is that of a real engine that the race has started."""

    latency_ms: float
    blocks_per_second: float
    cpu_ms_per_block: float
    cpu_ms_per_block_by_process: dict[str, float]
    cpu_s: float
    engine_calls_per_block: float
    pss_mb: float
    first_l1_request_s: float
    ready_s: float
    first_attributes_s: float
    end_s: float
    server_cpu_ms_per_block: float
    engine_cpu_ms_per_block: float
    load: float
    counted: LastSafe


def run_once(
    course: CourseFiles,
    program: RaceProgram,
    latency_ms: float,
    busy: int,
    seconds: float,
    engine: FreshEngine | None = None,
) -> RaceRun:
    """One run of at most that many seconds, with so many busy loops beside it.

    Raises RaceError where the node ends, takes longer, derives anything that is not the course's, or reports another
    safe head, and EngineError where a real engine does not start."""
    load = os.getloadavg()[0]
    with busy_loops(busy), running(course, program, [f"--latency={latency_ms}"], seconds, engine) as node:
        first = node.next(FirstAttributes)
        before, engine_before = node.cpu(), node.engine_cpu()
        last = node.next(LastSafe)
        after, engine_after = node.cpu(), node.engine_cpu()
        node.sample_memory()
        node.check_safe_head()
    assert node.ready is not None
    blocks = sum(len(chain.facts.l2_hashes) - 1 for chain in program.followed(course))
    return RaceRun(
        latency_ms=latency_ms,
        blocks_per_second=blocks / (last.time - first.time),
        cpu_ms_per_block=1000 * (after.total - before.total) / blocks,
        cpu_ms_per_block_by_process=_by_process(before, after, blocks),
        cpu_s=after.total,
        engine_calls_per_block=_engine_calls(last.engine_calls) / blocks,
        pss_mb=node.memory,
        first_l1_request_s=max(0.0, first.first_l1_request - node.started),
        ready_s=node.ready - node.started,
        first_attributes_s=first.time - node.started,
        end_s=last.time - node.started,
        server_cpu_ms_per_block=last.cpu_ms / blocks,
        engine_cpu_ms_per_block=1000 * (engine_after - engine_before) / blocks,
        load=load,
        counted=last,
    )


def _by_process(before: CpuUsage, after: CpuUsage, blocks: int) -> dict[str, float]:
    return {
        name: 1000 * (seconds - before.by_process.get(name, 0.0)) / blocks for name, seconds in after.by_process.items()
    }


def _engine_calls(calls: dict[str, int]) -> int:
    """All calls but those that ask for the engine's chain and versions, which are made at the start."""
    return sum(count for name, count in calls.items() if name not in ("eth_chainId", "engine_exchangeCapabilities"))


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Other work on the cores; it ends with this process at the latest."""
    loops = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
