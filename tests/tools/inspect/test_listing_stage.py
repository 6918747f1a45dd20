"""The stage of `batches` on a test's L1 blocks: the batches it lists, the drops it reports, and how long it waits."""

import asyncio
import json
import os
from contextlib import suppress
from pathlib import Path

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import ExitRequested
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest, L1BlockUnavailable
from rollup_node.stages.protocol.config import ForeignFork
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.bench.in_process import in_process_buses, running_buses
from rollup_node.tools.inspect.listing_stage import ListingConfig, build
from rollup_node.tools.inspect.row_formats import RowFormat
from tests.conformance.kit.chain import GENESIS, STRANGER, L1Blocks, calldata, forks_until, rollup
from tests.conformance.kit.planning import channel, child, plan, span

ROLES = ("l1", "blobs", "derivation", "engine", "rpc", "compute")


async def _list(
    l1: L1Blocks,
    directory: Path,
    form: RowFormat = RowFormat.JSON,
    missing: int = -1,
    timeout: float | None = None,
    **changes: ForeignFork,
) -> tuple[list[str], list[str]]:
    """The lines on standard output and on standard error for all blocks of `l1` but `missing`, which the
    endpoint has lost."""
    buses = in_process_buses(CHANNELS, directory, dict.fromkeys(ROLES, 1))
    paths = [directory / "out", directory / "err"]
    out, err = (os.open(path, os.O_CREAT | os.O_WRONLY) for path in paths)

    def answer(peer: ProcessId, request: L1BlocksRequest) -> None:
        for number in range(request.first, request.first + request.count):
            if number == missing:
                server.send(peer, L1BlockUnavailable(number, last, Problem(None, "", "endpoint: pruned")))
            else:
                server.send(peer, L1BlockResponse(l1[number]))

    server = buses["l1"].serve("l1.blocks", answer)
    first, last = l1.blocks[0].header.number, l1.last.header.number
    config = ListingConfig(rollup(forks_until("holocene"), **changes), first, last, None, form, out, err, timeout)
    stage = build(config, buses["derivation"], Meter("derivation"))
    (task,) = stage.periodic_tasks
    async with running_buses(buses), asyncio.timeout(20):
        with suppress(ExitRequested):
            while True:
                pause = await task.step()
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await task.wake.wait()
                task.wake.clear()
        await stage.close()
    os.close(out)
    os.close(err)
    return paths[0].read_text().splitlines(), paths[1].read_text().splitlines()


def test_what_does_not_decode_is_reported_with_its_block_and_rule(tmp_path: Path) -> None:
    l1 = L1Blocks()
    first = l1.add(*channel("A", child(GENESIS).singular, b"\x07")).header.number
    l1.add(b"\x05", calldata(b"\x05", STRANGER))
    l1.add(*channel("B", span(plan(GENESIS, 1))))
    out, err = asyncio.run(_list(l1, tmp_path))
    assert [(line["inclusion"], line["kind"]) for line in map(json.loads, out)] == [
        (first, "singular"),
        (first + 2, "span"),
    ]
    assert err == [
        f"rollup-node: L1 {first}: channel ended early: unknown batch type 7 [BE3]",
        f"rollup-node: L1 {first + 1}: frames ignored: unknown version 5 [P2]",
    ]


def test_the_list_ends_before_the_first_batch_beyond_a_foreign_fork(tmp_path: Path) -> None:
    """A batch that begins before the fork is listed whole [LFT9]."""
    blocks = plan(GENESIS, 7)
    l1 = L1Blocks()
    l1.add(*channel("A", blocks[0].singular))
    l1.add(*channel("B", span(blocks[1:4])))
    left = l1.add(*channel("C", span(blocks[4:6]))).header.number
    l1.add(*channel("D", blocks[6].singular))
    out, err = asyncio.run(_list(l1, tmp_path, foreign_fork=ForeignFork("Somefork", blocks[2].ref.timestamp)))
    assert [json.loads(line)["blocks"] for line in out] == [1, 3]
    (line,) = err
    assert line.startswith(f"rollup-node: a batch in L1 block {left} is of later blocks: block 2 is the last that")
    assert line.endswith("(NETWORK-LEFT)")


def test_csv_has_the_names_of_its_fields_also_without_batches(tmp_path: Path) -> None:
    l1 = L1Blocks()
    l1.add()
    (header,), err = asyncio.run(_list(l1, tmp_path, RowFormat.CSV))
    assert header.startswith("inclusion,inclusion_timestamp,l1_transactions,channel,") and err == []


def test_a_block_that_does_not_come_ends_the_list_at_the_timeout(tmp_path: Path) -> None:
    l1 = L1Blocks()
    l1.add(*channel("A", child(GENESIS).singular))
    last = l1.add().header.number
    out, err = asyncio.run(_list(l1, tmp_path, missing=last, timeout=0.8))
    assert len(out) == 1
    assert err == [f"rollup-node: L1 block {last}: endpoint: pruned"]
