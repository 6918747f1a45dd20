"""The process behind `batches`, with l1 played: what is listed, and what is told beside it."""

import asyncio
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.ipc.bus.in_process import in_process_buses, running_buses
from rollup_node.node.inspect.listing_stage import ListingConfig, build
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.io.task import ExitRequested
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest
from rollup_node.stages.topology import CHANNELS

ROLES = ("l1", "blobs", "derivation", "engine", "rpc", "compute")


async def _list(world: Any, last: int, directory: Path) -> tuple[list[str], list[str]]:
    """The lines on standard output and on standard error."""
    buses = in_process_buses(CHANNELS, directory, dict.fromkeys(ROLES, 1))
    paths = [directory / "out", directory / "err"]
    out, err = (os.open(path, os.O_CREAT | os.O_WRONLY) for path in paths)
    server = buses["l1"].serve("l1.blocks", lambda peer, want: answer(peer, want))

    def answer(peer: ProcessId, want: L1BlocksRequest) -> None:
        for number in range(want.first, want.first + want.count):
            server.send(peer, L1BlockResponse(world.l1(number)))

    stage = build(ListingConfig(world.config, 0, last, None, True, out, err), buses["derivation"], Meter("derivation"))
    activity = stage.periodic_tasks[0]
    async with running_buses(buses), asyncio.timeout(20):
        with suppress(ExitRequested):
            while True:
                pause = await activity.step()
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await activity.wake.wait()
                activity.wake.clear()
        await stage.close()
    os.close(out)
    os.close(err)
    return paths[0].read_text().splitlines(), paths[1].read_text().splitlines()


def test_what_does_not_decode_is_told_with_its_block_and_rule(made: Any, tmp_path: Path) -> None:
    world = made.World(made.forks_to("holocene"))
    world.put_batches(1, world.singular(1, 0), b"\x07")
    world.put(2, b"\x05", b"stranger's", sender=made.STRANGER)
    world.put(2, b"\x05")
    world.put_batches(3, world.span(1, 0))
    out, err = asyncio.run(_list(world, 4, tmp_path))
    assert [(line["inclusion"], line["kind"]) for line in map(json.loads, out)] == [(1, "singular"), (3, "span")]
    assert err == [
        "rollup-node: L1 1: batch ended the reading of its channel: unknown batch type 7 (rule BE3)",
        "rollup-node: L1 2: frames ignored: unknown version 5 (rule P2)",
    ]
