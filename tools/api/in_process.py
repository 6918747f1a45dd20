"""The stages and the buses of several processes within one process: for the library, tests and benchmarks.

buses = in_process_buses(CHANNELS, directory, {"l1": 1, "derivation": 1, "compute": 2})
async with running_buses(buses):
    client = buses["derivation"].connect("l1.blocks", answers.append)
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from rollup_node.ipc.bus.bus import Bus
from rollup_node.ipc.bus.channels import Channel, socket_names
from rollup_node.ipc.shared_memory.arena import Arena
from rollup_node.ipc.shared_memory.liveness import LivenessTable
from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.ipc.wire.sockets import socket_path
from rollup_node.node.runtime.task_runner import Problems, TaskRunner
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import ExitRequested, Stage, cancel_all


def in_process_buses(
    channels: Iterable[Channel], directory: Path, copies: Mapping[str, int], *, incarnation: int = 1
) -> dict[str, Bus]:
    """One bus for each copy of each role: "compute" is the first, "compute:1" the second copy.

    "engine.10" is that of the group "10". They share a liveness table, arenas and `directory`, whose path must be
    short. Their memory is freed when the last of them is closed."""
    table = tuple(channels)
    names = [
        (*role.partition(".")[::2], f"{role}:{copy}" if copy else role)
        for role, count in copies.items()
        for copy in range(count)
    ]
    slots: dict[tuple[str, str], list[int]] = {}
    for slot, (role, group, _) in enumerate(names):
        slots.setdefault((role, group), []).append(slot)
    socket_path(directory, max(socket_names(table, [group for _, group in slots]), key=len))
    liveness = LivenessTable(len(names))
    arenas = {slot: Arena(len(names)) for slot in range(len(names))}
    buses = {}
    for slot, (role, group, name) in enumerate(names):
        liveness.start(slot, incarnation)
        buses[name] = Bus(table, role, ProcessId(slot, incarnation), slots, liveness, arenas, directory, group)
    opened = set(buses)

    def closed(name: str) -> None:
        opened.discard(name)
        if not opened:
            liveness.close()
            for arena in arenas.values():
                arena.close()

    for name, bus in buses.items():
        bus.on_close(lambda name=name: closed(name))  # type: ignore[misc]
    return buses


@asynccontextmanager
async def running_buses(buses: Mapping[str, Bus]) -> AsyncIterator[None]:
    """Run all buses, and close them at the end. Raises at its end what a handler raised."""
    pumps = [asyncio.create_task(bus.run()) for bus in buses.values()]
    try:
        yield
    finally:
        for pump in pumps:
            pump.cancel()
        results = await asyncio.gather(*pumps, return_exceptions=True)
        for bus in buses.values():
            bus.close()
    for result in results:
        if isinstance(result, Exception):
            raise result


Build = Callable[[Bus, Meter], Stage]


async def run_stages(channels: Iterable[Channel], builds: Mapping[str, Build]) -> None:
    """Run one stage for each role in this event loop until one of them ends the run.

    Raises what a step raises that is not to be retried. Nothing is left when it returns, raises or is cancelled."""
    with tempfile.TemporaryDirectory(prefix="rn-api-") as folder:
        buses = in_process_buses(channels, Path(folder), dict.fromkeys(builds, 1))
        stages: list[Stage] = []
        steps: list[asyncio.Task[None]] = []
        async with running_buses(buses):
            try:
                for role, build in builds.items():
                    meter = Meter(role)
                    stage = build(buses[role], meter)
                    stages.append(stage)
                    await stage.start()
                    runner = TaskRunner(stage, meter, Problems(stage, meter), role)
                    steps += [asyncio.create_task(runner.run(task)) for task in runner.periodic_tasks]
                done, _ = await asyncio.wait(steps, return_when=asyncio.FIRST_EXCEPTION)
                for step in done:
                    step.result()
            except ExitRequested:
                return
            finally:
                await cancel_all(steps)
                for stage in stages:
                    await stage.close()
    raise RuntimeError("the stages have ended without an end of the run")
