"""Several processes' buses in one, for tests of stages:

buses = Bus.for_test(CHANNELS, directory, {"l1": 1, "derivation": 1, "compute": 2})
async with pumping(buses):
    client = buses["derivation"].connect("l1.blocks", answers.append)
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from rollup_node.ipc.bus.bus import Bus
from rollup_node.ipc.bus.channels import Channel
from rollup_node.ipc.shared_memory.arena import Arena
from rollup_node.ipc.shared_memory.liveness import LivenessTable
from rollup_node.ipc.wire.sockets import check_paths


def make_buses(
    channels: Iterable[Channel], directory: Path, copies: Mapping[str, int], *, incarnation: int = 1
) -> dict[str, Bus]:
    """One bus for each copy of each role: "compute" is the first, "compute:1" the second copy. They share a board,
    arenas and `directory` (whose path must be short). Their memory is freed when the last of them is closed."""
    table = tuple(channels)
    check_paths(directory, [channel.name for channel in table])
    names = [(role, f"{role}:{copy}" if copy else role) for role, count in copies.items() for copy in range(count)]
    rows: dict[str, list[int]] = {}
    for row, (role, _) in enumerate(names):
        rows.setdefault(role, []).append(row)
    board = LivenessTable(len(names))
    arenas = {row: Arena(len(names)) for row in range(len(names))}
    buses = {}
    for row, (role, name) in enumerate(names):
        board.start(row, incarnation)
        buses[name] = Bus(table, role, row, incarnation, rows, board, arenas, directory)
    opened = set(buses)

    def closed(name: str) -> None:
        opened.discard(name)
        if not opened:
            board.close()
            for arena in arenas.values():
                arena.close()

    for name, bus in buses.items():
        bus.on_close(lambda name=name: closed(name))  # type: ignore[misc]
    return buses


@asynccontextmanager
async def pumping(buses: Mapping[str, Bus]) -> AsyncIterator[None]:
    """Runs the pumps of all buses, and closes them at the end. An error of a handler is raised at the end."""
    pumps = [asyncio.create_task(bus.run()) for bus in buses.values()]
    try:
        yield
    finally:
        for pump in pumps:
            pump.cancel()
        ends = await asyncio.gather(*pumps, return_exceptions=True)
        for bus in buses.values():
            bus.close()
    for end in ends:
        if isinstance(end, Exception):
            raise end
