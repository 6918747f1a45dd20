"""One stage with a compute worker and the buses of the other processes."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

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


@asynccontextmanager
async def driven(stage: Stage, meter: Meter, role: str) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Start a stage, run its periodic tasks, which are yielded, and close it. What one raises is raised at the end."""
    await stage.start()
    driver = TaskRunner(stage, meter, Problems(stage, meter), role)
    running = [asyncio.create_task(driver.run(task)) for task in driver.periodic_tasks]
    try:
        yield running
    finally:
        for task in running:
            task.cancel()
        results = await asyncio.gather(*running, return_exceptions=True)
        await stage.close()
    for result in results:
        if isinstance(result, Exception):
            raise result


@asynccontextmanager
async def running_stage(role: str, build: Build, roles: Iterable[str] = ROLES) -> AsyncIterator[dict[str, Bus]]:
    """Run the stage that `build` makes for a role, with a compute worker; the buses of all roles."""
    with tempfile.TemporaryDirectory(prefix="rn-") as folder:
        buses, meter = in_process_buses(CHANNELS, Path(folder), dict.fromkeys(roles, 1)), Meter(role)
        compute.build(ComputeConfig(), buses["compute"], meter)
        stage = build(buses[role], meter)
        async with running_buses(buses), driven(stage, meter, role):
            yield buses


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
