"""A one-shot process in place of derivation that dispatches channels to compute workers.

It measures how long all of them take and how much CPU time it uses meanwhile."""

import asyncio
import os
import time
from collections.abc import Sequence

import msgspec

from rollup_node.ipc.bus.bus import Bus
from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.tasks import DecodeChannel, run
from rollup_node.stages.io.log.logger import Level
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import ExitRequested, PeriodicTask, Stage
from rollup_node.tools.bench import synthetic_chain


class DecodeTimes(msgspec.Struct, frozen=True, array_like=True):
    """Wall-clock seconds, and CPU seconds of the dispatching process."""

    seconds: float
    dispatcher: float


class DecodeJobConfig(msgspec.Struct, frozen=True):
    """The channel bodies, and the file descriptor that the result is written to."""

    bodies: tuple[bytes, ...]
    workers: int
    output: int


class DecodeJob(Stage):
    """Dispatches all channels at once, after a warm-up of each worker."""

    def __init__(self, config: DecodeJobConfig, bus: Bus, meter: Meter) -> None:
        self._config = config
        self._pool = bus.dispatch("work.derivation")
        self.periodic_tasks = [PeriodicTask("decode", self._step)]

    async def _step(self) -> float:
        rules = SpanRules(10, synthetic_chain.GENESIS_TIME, synthetic_chain.BLOCK_TIME)
        work = [DecodeChannel(body, synthetic_chain.MAX_BYTES, True, rules) for body in self._config.bodies]
        await asyncio.gather(*(self._pool.run(task) for task in work[: 4 * self._config.workers]))
        started, busy = time.perf_counter(), time.process_time()
        await asyncio.gather(*(self._pool.run(task) for task in work))
        times = DecodeTimes(time.perf_counter() - started, time.process_time() - busy)
        os.write(self._config.output, msgspec.json.encode(times))
        raise ExitRequested()


build = DecodeJob


class DecodeWorker(Stage):
    """A compute worker that serves `work.derivation` alone."""

    def __init__(self, bus: Bus) -> None:
        self.worker = bus.work({"work.derivation": run})


def build_worker(config: object, bus: Bus, meter: Meter) -> DecodeWorker:
    """Return the worker, built by the runtime."""
    return DecodeWorker(bus)


def worker_seconds(bodies: Sequence[bytes], workers: int) -> DecodeTimes:
    """How long `workers` compute processes take to decode all bodies.

    The supervisor runs in a forked child, since it takes over the signals and children of its process."""
    read, write = os.pipe()
    pid = os.fork()  # the supervisor must be forked from a process without threads
    if pid == 0:
        os.close(read)
        os._exit(_run(tuple(bodies), workers, write))
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return msgspec.json.decode(text, type=DecodeTimes)


def _run(bodies: tuple[bytes, ...], workers: int, output: int) -> int:
    from rollup_node.node.supervisor.supervisor import run_node

    rows = [
        ProcessSpec("compute", "rollup_node.tools.bench.decode_job:build_worker", None, copies=workers, numbered=True),
        ProcessSpec(
            "derivation",
            "rollup_node.tools.bench.decode_job:build",
            DecodeJobConfig(bodies, workers, output),
            one_shot=True,
            keep_fds=(output,),
        ),
    ]
    return run_node(rows, NodeSettings(version="bench", log=LogSettings(Level.ERROR), log_output=2))
