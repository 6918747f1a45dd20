"""A worker runs the tasks of all three stages."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from rollup_node.ipc.bus.in_process import in_process_buses, running_buses
from rollup_node.stages.blobs.tasks import BlobsVerified, VerifyBlobs
from rollup_node.stages.compute.config import ComputeConfig
from rollup_node.stages.compute.process.stage import build
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.tasks import DecodeChannel, DecodedChannel
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.l1.filter import L1Filter
from rollup_node.stages.l1.tasks import Invalid, VerifyBlock
from rollup_node.stages.topology import CHANNELS

L1_FILTER = L1Filter(1, bytes(20), bytes(20), bytes(20))


def tasks() -> dict[str, Any]:
    span = SpanRules(**{name: 0 for name in SpanRules.__struct_fields__})
    return {
        "blobs": VerifyBlobs((b"\x01" * 32,), ()),
        "l1": VerifyBlock(1, b"<html>", False, L1_FILTER),
        "derivation": DecodeChannel(b"\x78 no channel", 1000, False, span),
    }


def test_tasks_of_every_stage_are_run() -> None:
    async def use() -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="rn-") as folder:
            buses = in_process_buses(CHANNELS, Path(folder), {"l1": 1, "blobs": 1, "derivation": 1, "compute": 1})
            stage = build(ComputeConfig(kzg=False), buses["compute"], Meter("compute"))
            pools = {role: buses[role].dispatch(f"work.{role}") for role in ("blobs", "l1", "derivation")}
            async with running_buses(buses):
                await stage.start()
                runs = {role: asyncio.create_task(pool.run(tasks()[role])) for role, pool in pools.items()}
                async with asyncio.timeout(10):
                    results = {role: await task for role, task in runs.items()}
            await stage.close()
            stage.report(())
        return results

    results = asyncio.run(use())
    assert results["blobs"] == BlobsVerified((), ())
    assert results["l1"] == Invalid("the answer is not JSON")
    assert isinstance(results["derivation"], DecodedChannel)
