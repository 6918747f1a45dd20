"""Where a range starts: a block whose origin is surely not after the warm-up's first block."""

from pathlib import Path

import msgspec
import pytest

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.engine import L2BlocksRequest, L2BlocksResponse
from rollup_node.stages.protocol.types import UNKNOWN_HASH, L1BlockRef, L2BlockContent
from rollup_node.tools.history import l1_view
from rollup_node.tools.history.manifest import Resume, genesis_resume
from rollup_node.tools.history.start_stage import RangeStartConfig, RangeStartStage, build
from rollup_node.tools.inspect.replay_stage import ReplayConfig, ReplayFailed
from rollup_node.tools.inspect.row_formats import RowFormat
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.tools.conftest import NewBuses

GENESIS = genesis_resume(PLAIN_ROLLUP)


class L1Refs:
    """L1 blocks every 12 seconds up to a head."""

    async def ref(self, number: int) -> L1BlockRef | None:
        return None if number > 100 else L1BlockRef(b"\x01" * 32, number, b"\x02" * 32, 12 * number + 1)


def _stage(
    buses: dict[str, Bus], first: int, warmup: int, resume: Resume | None = None, overlap: str | None = None
) -> RangeStartStage:
    replay = ReplayConfig(PLAIN_ROLLUP, 0, 1 << 62, "http://127.0.0.1:9", None, None, RowFormat.JSON, 1, 2)
    stage = build(RangeStartConfig(replay, first, warmup, None, 0, resume, overlap), buses["engine"], Meter("engine"))
    stage._l1 = L1Refs()  # type: ignore[assignment]
    return stage


@pytest.mark.parametrize(("first", "warmup", "number"), [(100, 50, 300), (100, 99, 6), (20, 50, 0)])
async def test_the_newest_block_of_the_time_at_which_the_warm_up_begins(
    new_buses: NewBuses, first: int, warmup: int, number: int, tmp_path: Path
) -> None:
    assert await _stage(new_buses(tmp_path), first, warmup)._warm_head() == number


async def test_a_warm_up_beyond_l1(new_buses: NewBuses, tmp_path: Path) -> None:
    with pytest.raises(ReplayFailed, match="L1 block 150, where the warm-up begins, does not exist"):
        await _stage(new_buses(tmp_path), 200, 50)._warm_head()


async def test_without_an_l2_source_it_continues_where_the_range_before_ended(
    new_buses: NewBuses, tmp_path: Path
) -> None:
    resume = msgspec.structs.replace(GENESIS, base=7)
    start = await _stage(new_buses(tmp_path), 100, 50, resume)._find_start()
    assert (start.safe_head, start.base) == (resume.safe, start.base) and start.base.number == 7
    assert start.safe_head.hash == PLAIN_ROLLUP.genesis.l2.hash
    with pytest.raises(ReplayFailed, match="L1 block 101, the first to read, does not exist"):
        await _stage(new_buses(tmp_path), 100, 50, msgspec.structs.replace(resume, base=101))._find_start()


async def test_without_an_l2_source_the_blocks_that_spans_overlap_are_the_derived_ones(
    new_buses: NewBuses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(l1_view, "MAX_BYTES", 25)
    stage, sent = _stage(new_buses(tmp_path), 100, 50, GENESIS), []
    monkeypatch.setattr(stage._server, "send", lambda peer, message: sent.append(message))
    contents = [
        L2BlockContent(msgspec.structs.replace(GENESIS.safe, number=number, hash=UNKNOWN_HASH), (bytes(10),))
        for number in (1, 2, 3)
    ]
    await stage._find_start()
    for content in contents:
        stage._recent.add(content)
    for first in (2, 1):
        await stage._answer_blocks_request(ProcessId(1, 1), L2BlocksRequest(1, first, 3))
    assert sent == [L2BlocksResponse(1, 2, 3, tuple(contents[1:]), None)]
    assert stage._failure == "a span batch overlaps block 1, of which only an L2 source has the contents: give one"


async def test_the_blocks_of_the_range_before_are_known(new_buses: NewBuses, tmp_path: Path) -> None:
    safe = msgspec.structs.replace(GENESIS.safe, number=7, hash=UNKNOWN_HASH)
    content = L2BlockContent(safe, (b"\x7e",))
    l1_view.RecentBlocks([content]).write(tmp_path / "overlap")
    for overlap, known in ((str(tmp_path / "overlap"), content), (None, None)):
        stage = _stage(new_buses(tmp_path), 100, 50, msgspec.structs.replace(GENESIS, safe=safe), overlap)
        await stage._find_start()
        assert stage._recent.get(7) == known
