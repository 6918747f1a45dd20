"""A worker runs the tasks of all three stages."""

import asyncio
from pathlib import Path

from rollup_node.stages.blobs.tasks import BlobsVerified, VerifyBlobs
from rollup_node.stages.compute.config import ComputeConfig
from rollup_node.stages.compute.process.stage import build
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.reasons.channels import ZlibHeaderInvalid
from rollup_node.stages.derivation.tasks import DecodeChannel, DecodedChannel
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1.filter import L1Filter
from rollup_node.stages.l1.tasks import Invalid, VerifyBlock
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses, running_buses
from tests.support.processes.stage_runner import run_within

TASKS = {
    "blobs": VerifyBlobs((b"\x01" * 32,), ()),
    "l1": VerifyBlock(1, b"<html>", False, (L1Filter(1, bytes(20), bytes(20), bytes(20)),)),
    "derivation": DecodeChannel(b"\x78 no channel", 1000, False, SpanRules(10, 0, 2)),
}
RESULTS = {
    "blobs": BlobsVerified((), ()),
    "l1": Invalid("the answer is not JSON: <html>"),
    "derivation": DecodedChannel((), ZlibHeaderInvalid(b"\x78 no c")),
}


def test_tasks_of_every_stage_are_run(tmp_path: Path) -> None:
    async def use() -> None:
        buses = in_process_buses(CHANNELS, tmp_path, {**dict.fromkeys(TASKS, 1), "compute": 1})
        stage = build(ComputeConfig(), buses["compute"], Meter("compute"))
        pools = {role: buses[role].dispatch(f"work.{role}") for role in TASKS}
        async with running_buses(buses):
            await stage.start()
            results = await asyncio.gather(*(pools[role].run(task) for role, task in TASKS.items()))
        await stage.close()
        assert dict(zip(TASKS, results, strict=True)) == RESULTS

    run_within(20, use)


def test_a_worker_serves_the_dispatchers_of_all_chains(tmp_path: Path) -> None:
    """[LIF33]"""
    chains = ("derivation.10", "derivation.130", "derivation.8453")

    async def use() -> None:
        buses = in_process_buses(CHANNELS, tmp_path, {**dict.fromkeys(("l1", "blobs", *chains), 1), "compute": 2})
        for worker in ("compute", "compute:1"):
            build(ComputeConfig(), buses[worker], Meter("compute"))
        pools = {role: buses[role].dispatch(f"work.{role.partition('.')[0]}") for role in ("l1", "blobs", *chains)}
        tasks = [(role, role.partition(".")[0]) for role in pools for _ in range(5)]
        async with running_buses(buses):
            results = await asyncio.gather(*(pools[role].run(TASKS[name]) for role, name in tasks))
        assert results == [RESULTS[name] for _, name in tasks]

    run_within(20, use)
