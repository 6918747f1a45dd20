"""A one-shot process in derivation's place that has channels decoded by compute workers and tells how long it took, and
how much of its own processor time."""

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
from rollup_node.stages.io.log import Level
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.io.task import ExitRequested, PeriodicTask
from rollup_node.tools.bench import chain as made


class Took(msgspec.Struct, frozen=True, array_like=True):
    """Seconds by the clock, and of the dispatching process's processor time."""

    seconds: float
    dispatcher: float


class JobConfig(msgspec.Struct, frozen=True):
    """The bodies, and the descriptor the seconds are written to."""

    bodies: tuple[bytes, ...]
    workers: int
    output: int


class DecodeJob:
    """Submits all channels at once after a warm-up of each worker."""

    def __init__(self, config: JobConfig, bus: Bus, meter: Meter) -> None:
        self._config = config
        self._pool = bus.dispatch("work.derivation")
        self.periodic_tasks = [PeriodicTask("decode", self._step)]

    async def start(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    def reset(self, error: Exception) -> None:
        """Has no state."""

    def report(self, problems: tuple[str, ...]) -> None:
        """Nobody listens."""

    async def _step(self) -> float:
        rules = SpanRules(10, made.GENESIS_TIME, made.BLOCK_TIME)
        work = [DecodeChannel(body, made.MAX_BYTES, True, rules) for body in self._config.bodies]
        await asyncio.gather(*(self._pool.run(task) for task in work[: 4 * self._config.workers]))
        started, busy = time.perf_counter(), time.process_time()
        await asyncio.gather(*(self._pool.run(task) for task in work))
        took = Took(time.perf_counter() - started, time.process_time() - busy)
        os.write(self._config.output, msgspec.json.encode(took))
        raise ExitRequested()


def build(config: JobConfig, bus: Bus, meter: Meter) -> DecodeJob:
    """The stage for the runtime."""
    return DecodeJob(config, bus, meter)


class DecodeWorker:
    """A compute process for this one channel."""

    periodic_tasks: tuple[PeriodicTask, ...] = ()

    def __init__(self, bus: Bus) -> None:
        self.worker = bus.work({"work.derivation": run})

    async def start(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    def reset(self, error: Exception) -> None:
        """Has no state."""

    def report(self, problems: tuple[str, ...]) -> None:
        """Nobody listens."""


def build_worker(config: object, bus: Bus, meter: Meter) -> DecodeWorker:
    """The worker for the runtime."""
    return DecodeWorker(bus)


def worker_seconds(bodies: Sequence[bytes], workers: int) -> Took:
    """How long `workers` compute processes take for all bodies. Forks, so that the caller's process stays as it is."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os._exit(_run(tuple(bodies), workers, write))
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return msgspec.json.decode(text, type=Took)


def _run(bodies: tuple[bytes, ...], workers: int, output: int) -> int:
    from rollup_node.node.supervisor.supervisor import run_node

    rows = [
        ProcessSpec("compute", "rollup_node.tools.bench.decode_job:build_worker", None, copies=workers, numbered=True),
        ProcessSpec(
            "derivation",
            "rollup_node.tools.bench.decode_job:build",
            JobConfig(bodies, workers, output),
            one_shot=True,
            keep_fds=(output,),
        ),
    ]
    return run_node(rows, NodeSettings(version="bench", log=LogSettings(Level.ERROR), log_output=2))
