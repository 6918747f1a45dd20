"""Where a range starts: a block whose origin is surely not after the warm-up's first block."""

import asyncio
from pathlib import Path

import pytest

from rollup_node.ipc.bus.in_process import in_process_buses
from rollup_node.node.history.start_stage import RangeStartConfig, RangeStartStage, build
from rollup_node.node.inspect.replay_stage import ReplayConfig, ReplayFailed
from rollup_node.node.inspect.row_formats import RowFormat
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.protocol.types import L1BlockRef
from rollup_node.stages.topology import CHANNELS
from tests.support.plain_rollup import PLAIN_ROLLUP

ROLES = ("l1", "derivation", "engine", "rpc")


class L1Refs:
    """L1 blocks every 12 seconds up to a head."""

    async def ref(self, number: int) -> L1BlockRef | None:
        return None if number > 100 else L1BlockRef(b"\x01" * 32, number, b"\x02" * 32, 12 * number + 1)


def _stage(folder: Path, first: int, warmup: int) -> RangeStartStage:
    replay = ReplayConfig(PLAIN_ROLLUP, 0, 1 << 62, "http://127.0.0.1:9", None, None, RowFormat.JSON, 1, 2)
    buses = in_process_buses(CHANNELS, folder, dict.fromkeys(ROLES, 1))
    stage = build(RangeStartConfig(replay, first, warmup, None, 0), buses["engine"], Meter("engine"))
    stage._l1 = L1Refs()  # type: ignore[assignment]
    return stage


@pytest.mark.parametrize(("first", "warmup", "number"), [(100, 50, 300), (100, 99, 6), (20, 50, 0)])
def test_the_newest_block_of_the_time_at_which_the_warm_up_begins(
    first: int, warmup: int, number: int, tmp_path: Path
) -> None:
    assert asyncio.run(_stage(tmp_path, first, warmup)._warm_head()) == number


def test_a_warm_up_beyond_l1(tmp_path: Path) -> None:
    with pytest.raises(ReplayFailed, match="L1 block 150, where the warm-up begins, does not exist"):
        asyncio.run(_stage(tmp_path, 200, 50)._warm_head())
