"""The figures of a race, as text with their bounds and as one JSON object."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rollup_node.tools.bench.measure import Figure, machine
from rollup_node.tools.bench.race.call_clock import PERCENTILES
from rollup_node.tools.bench.race.course_files import KINDS, CourseSize
from rollup_node.tools.bench.race.node_run import TipRun
from rollup_node.tools.bench.race.programs import LIMIT, OURS
from rollup_node.tools.bench.race.runner import RaceRun

Runs = Mapping[float, Sequence[RaceRun]]
"""The runs of a node by latency in milliseconds."""

FLOORS = {0.0: 500.0, 50.0: 480.0, 100.0: 400.0}
BUSY_FLOORS = {50.0: 250.0}
"""Of blocks per second by latency, with quiet cores and with two busy loops on them."""

FULL_FLOORS = {50.0: 400.0}
FULL_BOUNDS = {"cpu_ms_per_block": 3.0, "pss_mb": 180.0}
"""Of full L1 blocks with 60 Mgas."""

CHAINS_RATE, CHAINS_L1, CHAIN_MEMORY = 0.9, 1.1, 75.0
"""Of several chains against one: the least rate, the most L1 calls and bytes, and the MiB of a further chain."""

TIP_REQUESTS, TIP_CPU_PERCENT = 1.3, 1.5
MEGABYTE = 1e6


class Quantity(NamedTuple):
    """A figure of a run: its name in JSON, its text, its unit, its bound, and how it is read. Bytes are shown in MB."""

    name: str
    text: str
    unit: str
    bound: float | None
    read: Callable[[RaceRun], float]


QUANTITIES = (
    Quantity("cpu_ms_per_block", "CPU a block, all processes", "ms", 2.2, lambda run: run.cpu_ms_per_block),
    Quantity("engine_calls_per_block", "engine calls a block", "", 3.1, lambda run: run.engine_calls_per_block),
    Quantity("l1_calls_made", "L1 calls", "", 400, lambda run: sum(run.counted.l1_calls.values())),
    Quantity("l1_requests", "L1 requests over HTTP", "", None, lambda run: run.counted.l1_requests),
    Quantity("engine_busy_percent", "an engine call is open", "%", None, lambda run: run.counted.engine_busy_percent),
    Quantity("answer_to_call_p50_ms", "engine's answer to next call, p50", "ms", None, lambda run: _gap(run, 50)),
    Quantity("answer_to_call_p99_ms", "engine's answer to next call, p99", "ms", None, lambda run: _gap(run, 99)),
    Quantity("engine_cpu_ms_per_block", "CPU a block, engine", "ms", None, lambda run: run.engine_cpu_ms_per_block),
    Quantity("l1_bytes", "L1 bytes", "MB", 60e6, lambda run: run.counted.l1_bytes),
    Quantity("beacon_requests", "Beacon API requests", "", None, lambda run: run.counted.beacon_requests),
    Quantity("beacon_bytes", "Beacon API bytes", "MB", None, lambda run: run.counted.beacon_bytes),
    Quantity("pss_mb", "memory, all processes (PSS)", "MiB", 160, lambda run: run.pss_mb),
    Quantity("first_l1_request_s", "start to first L1 request", "s", 0.3, lambda run: run.first_l1_request_s),
    Quantity("ready_s", "start to ready", "s", 1.2, lambda run: run.ready_s),
    Quantity("first_attributes_s", "start to first attributes", "s", None, lambda run: run.first_attributes_s),
    Quantity("end_s", "start to last safe block", "s", None, lambda run: run.end_s),
    Quantity("cpu_s", "CPU from start to end", "s", None, lambda run: run.cpu_s),
    Quantity(
        "server_cpu_ms_per_block", "CPU a block of the servers", "ms", 0.7, lambda run: run.server_cpu_ms_per_block
    ),
)


def figures(
    runs: Sequence[RaceRun], size: CourseSize, busy: int, bounded: bool, limit: Sequence[RaceRun] = ()
) -> list[Figure]:
    """Return the figures of the runs with one latency; `limit` are those of the plain client with it.

    Bounds are of this node (`bounded`) on the default course, and on that of full blocks with 60 Mgas; but for the
    speed they are those of two quiet cores."""
    bounds: Mapping[str, float] = {}
    floor = None
    if bounded and size == KINDS["2023"]:
        floor = (BUSY_FLOORS if busy else FLOORS).get(runs[0].latency_ms)
        bounds = {quantity.name: quantity.bound for quantity in QUANTITIES if quantity.bound is not None}
    elif bounded and size == KINDS["full60"] and not busy:
        floor, bounds = FULL_FLOORS.get(runs[0].latency_ms), FULL_BOUNDS
    result = [Figure("blocks per second", "", tuple(run.blocks_per_second for run in runs), floor=floor)]
    if limit:
        shares = tuple(run.blocks_per_second / _speed(limit) for run in runs)
        result.append(Figure("share of the limit", "", shares))
    for quantity in QUANTITIES:
        scale = MEGABYTE if quantity.unit == "MB" else 1.0
        values = tuple(quantity.read(run) / scale for run in runs)
        bound = bounds[quantity.name] / scale if quantity.name in bounds and not busy else None
        if bound is not None or any(values):
            result.append(Figure(quantity.text, quantity.unit, values, bound))
    for name, milliseconds in _by_process(runs).items():
        if any(milliseconds):
            result.append(Figure(f"  CPU a block of {name}", "ms", tuple(milliseconds)))
    return result


def chain_figures(runs: Sequence[RaceRun], alone: Sequence[RaceRun], size: CourseSize) -> list[Figure]:
    """Return what all chains of a course cost in one program against the first chain alone, each in turn."""
    pairs = list(zip(runs, alone, strict=True))

    def ratios(read: Callable[[RaceRun], float]) -> tuple[float, ...]:
        return tuple(read(run) / read(other) for run, other in pairs)

    memory = tuple((run.pss_mb - other.pss_mb) / (size.chains - 1) for run, other in pairs)
    calls, sizes = (lambda run: sum(run.counted.l1_calls.values())), (lambda run: run.counted.l1_bytes)
    return [
        Figure("blocks per second in sum", "x", ratios(lambda run: run.blocks_per_second), floor=CHAINS_RATE),
        Figure("L1 calls", "x", ratios(calls), CHAINS_L1),
        Figure("L1 bytes", "x", ratios(sizes), CHAINS_L1),
        Figure("memory of a further chain (PSS)", "MiB", memory, CHAIN_MEMORY),
    ]


def _gap(run: RaceRun, percent: int) -> float:
    return run.counted.engine_gaps_ms[PERCENTILES.index(percent)]


def summary(runs: Runs) -> dict[str, Any]:
    """Return the medians of a node's runs.

    Of the blocks per second by latency, of all else over all latencies, and again by latency with the least and the
    most. CPU in milliseconds a block, times in seconds from the start."""
    every = [run for some in runs.values() for run in some]
    if not every:
        return {}
    result: dict[str, Any] = {"blocks_per_second": {f"{latency:g}": _speed(some) for latency, some in runs.items()}}
    result |= {quantity.name: statistics.median(map(quantity.read, every)) for quantity in QUANTITIES}
    result["cpu_ms_per_block_by_process"] = {
        name: statistics.median(milliseconds) for name, milliseconds in _by_process(every).items()
    }
    for name in ("l1_calls", "beacon_calls", "engine_calls"):
        result[name] = getattr(every[-1].counted, name)
    result["by_latency"] = {f"{latency:g}": _ranges(some) for latency, some in runs.items()}
    return result


def report(size: CourseSize, busy: int, runs: Mapping[str, Runs], tips: Mapping[str, TipRun]) -> dict[str, Any]:
    """Return the whole object.

    The figures of this node, and those of op-node in `op_node`, each with `tip` where that was measured, and of the
    plain client in `limit`, with the share of its speed of each node. `pss_mb` is in MiB."""
    summaries = {
        name: summary(some) | ({"tip": msgspec.structs.asdict(tips[name])} if name in tips else {})
        for name, some in runs.items()
    }
    for name in summaries:
        limits = runs.get(LIMIT, {}) if name != LIMIT else {}
        shares = {f"{ms:g}": _speed(some) / _speed(limits[ms]) for ms, some in runs[name].items() if ms in limits}
        summaries[name] |= {"share_of_limit": shares} if shares else {}
    ours = summaries.pop(OURS)
    result = {"machine": machine(), "busy": busy, "course": msgspec.structs.asdict(size), **ours}
    return result | {name.replace("-", "_"): item for name, item in summaries.items()}


def tip_figures(tip: TipRun, bounded: bool) -> list[Figure]:
    """Return the figures at the tip; bounds are of this node (`bounded`)."""
    requests, cpu = (TIP_REQUESTS, TIP_CPU_PERCENT) if bounded else (None, None)
    return [
        Figure("L1 requests for an L1 block", "", (tip.l1_requests_per_block,), requests),
        Figure("L1 bytes for an L1 block", "MB", (tip.l1_bytes_per_block / MEGABYTE,)),
        Figure("Beacon API requests for an L1 block", "", (tip.beacon_requests_per_block,)),
        Figure("CPU, all processes", "%", (tip.cpu_percent,), cpu),
    ]


def _speed(runs: Sequence[RaceRun]) -> float:
    return statistics.median(run.blocks_per_second for run in runs)


def _ranges(runs: Sequence[RaceRun]) -> dict[str, Any]:
    readers = {"blocks_per_second": lambda run: run.blocks_per_second, "load": lambda run: run.load}
    ranges: dict[str, Any] = {"runs": len(runs)}
    for name, read in {**readers, **{quantity.name: quantity.read for quantity in QUANTITIES}}.items():
        values = [read(run) for run in runs]
        ranges[name] = {"median": statistics.median(values), "least": min(values), "most": max(values)}
    return ranges


def _by_process(runs: Sequence[RaceRun]) -> dict[str, list[float]]:
    """Return the CPU of each process, the most first; one that a run lacks used none in it."""
    names = {name for run in runs for name in run.cpu_ms_per_block_by_process}
    spent = {name: [run.cpu_ms_per_block_by_process.get(name, 0.0) for run in runs] for name in names}
    return dict(sorted(spent.items(), key=lambda item: (-sum(item[1]), item[0])))
