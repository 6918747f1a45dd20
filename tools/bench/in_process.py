"""The buses of several processes within one process, for tests and benchmarks of stages:

buses = in_process_buses(CHANNELS, directory, {"l1": 1, "derivation": 1, "compute": 2})
async with running_buses(buses):
    client = buses["derivation"].connect("l1.blocks", answers.append)
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from rollup_node.ipc.bus.bus import Bus
from rollup_node.ipc.bus.channels import Channel, socket_names
from rollup_node.ipc.shared_memory.arena import Arena
from rollup_node.ipc.shared_memory.liveness import LivenessTable
from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.ipc.wire.sockets import check_paths


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
    check_paths(directory, socket_names(table, [group for _, group in slots]))
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
