"""One stage with a compute worker and the buses of the other processes, with or without the task runner."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from rollup_node.ipc.bus.bus import Bus
from rollup_node.node.runtime.task_runner import Problems, TaskRunner
from rollup_node.stages.compute.config import ComputeConfig
from rollup_node.stages.compute.process import stage as compute
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import ExitRequested, Stage
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses, running_buses

T = TypeVar("T")
Build = Callable[[Bus, Meter], Stage]
ROLES = ("l1", "blobs", "derivation", "engine", "compute", "rpc")


class StartedStage(NamedTuple):
    """A stage whose periodic tasks do not run, and the buses of all roles."""

    stage: Stage
    meter: Meter
    buses: dict[str, Bus]


@asynccontextmanager
async def started_stage(role: str, build: Build, roles: Iterable[str] = ROLES) -> AsyncIterator[StartedStage]:
    """Start the stage that `build` makes for a role, and closes it in the end."""
    with tempfile.TemporaryDirectory(prefix="rn-") as folder:
        buses = in_process_buses(CHANNELS, Path(folder), dict.fromkeys(roles, 1))
        meter = Meter(role)
        compute.build(ComputeConfig(), buses["compute"], meter)
        stage = build(buses[role], meter)
        async with running_buses(buses):
            await stage.start()
            try:
                yield StartedStage(stage, meter, buses)
            finally:
                await stage.close()


@asynccontextmanager
async def running_stage(role: str, build: Build, roles: Iterable[str] = ROLES) -> AsyncIterator[dict[str, Bus]]:
    """Run a stage with its periodic tasks; the buses of all roles. What a task raises is raised at the end."""
    async with started_stage(role, build, roles) as (stage, meter, buses):
        driver = TaskRunner(stage, meter, Problems(stage, meter), role)
        running = [asyncio.create_task(driver.run(activity)) for activity in driver.periodic_tasks]
        try:
            yield buses
        finally:
            driver.stop()
            await asyncio.wait(running, timeout=1.0)
            for task in running:
                task.cancel()
            results = await asyncio.gather(*running, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result


async def run_to_exit(stage: Stage) -> int:
    """Step the one periodic task of a stage until it ends the process; the exit code."""
    (task,) = stage.periodic_tasks
    while True:
        try:
            pause = await task.step()
        except ExitRequested as end:
            return end.code
        with suppress(TimeoutError):
            await asyncio.wait_for(task.wake.wait(), pause)
        task.wake.clear()


def run_within(seconds: float, main: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine function in a new event loop. Raises TimeoutError after that many seconds."""

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await main()

    return asyncio.run(bounded())
