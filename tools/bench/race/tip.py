"""Measures a node at the tip: what a new L1 block costs in requests and CPU."""

import msgspec

from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.course_size import CourseSize
from rollup_node.tools.bench.race.node_run import RaceError, running
from rollup_node.tools.bench.race.programs import RaceProgram
from rollup_node.tools.bench.race.server import LastSafe, NewHead

TIP = CourseSize(l1_blocks=40, deposits=23, l2_blocks=228, blocks_per_channel=30, blocks_per_span=30)
"""A channel for every five L1 blocks."""

L1_BLOCK_SECONDS = 12.0
SETTLING = 2
"""New L1 blocks before the measured ones."""


class TipRun(msgspec.Struct):
    """Requests and result bytes for each new L1 block, and the CPU of all processes in percent of a core.

    Over so many L1 blocks."""

    l1_requests_per_block: float
    l1_bytes_per_block: float
    beacon_requests_per_block: float
    cpu_percent: float
    l1_blocks: int
    seconds: float


def run_tip(course: CourseFiles, program: RaceProgram, interval: float, measured: int) -> TipRun:
    """Return the figures over the last `measured` L1 blocks of a course, of which one comes every `interval` seconds.

    Raises RaceError as `run_once`, and where the course is too short."""
    fresh = measured + SETTLING
    if fresh >= course.facts.size.l1_blocks:
        raise RaceError(f"{course.facts.size.l1_blocks} L1 blocks do not hold {fresh} new ones")
    arguments = [f"--fresh={fresh}", f"--interval={interval}"]
    with running(course, program, arguments, (fresh + 3) * interval + 60) as node:
        for _ in range(SETTLING):
            first = node.next(NewHead)
        before = node.cpu().total
        for _ in range(measured):
            last = node.next(NewHead)
        used = node.cpu().total - before
        node.next(LastSafe)
        node.check_safe_head()
    seconds = last.time - first.time
    return TipRun(
        l1_requests_per_block=(last.l1_requests - first.l1_requests) / measured,
        l1_bytes_per_block=(last.l1_bytes - first.l1_bytes) / measured,
        beacon_requests_per_block=(last.beacon_requests - first.beacon_requests) / measured,
        cpu_percent=100 * used / seconds,
        l1_blocks=measured,
        seconds=seconds,
    )
