"""The logs of before the first round: read in parts, written in order, with progress [VR10]."""

import asyncio
from collections.abc import Sequence

import pytest

from rollup_node.stages.interop.block_content import BlockContent
from rollup_node.stages.interop.process.engine_reader import MAX_BLOCKS
from rollup_node.stages.interop.process.log_backfill import IN_FLIGHT, LogBackfill
from rollup_node.stages.interop.rounds import NONE, AddLogs, LogRange
from rollup_node.stages.protocol.errors import TemporaryError
from tests.support.interop.values import numbered_content
from tests.support.timing.manual_clock import ManualClock


class Reader:
    """An engine whose blocks from `changed` on are others; `most` is how many reads were open at a time."""

    def __init__(self, changed: int = 10**9, fails: int = 10**9) -> None:
        self._changed, self._fails, self._open, self.most = changed, fails, 0, 0

    async def blocks(self, first: int, last: int) -> Sequence[BlockContent]:
        assert last - first < MAX_BLOCKS
        self._open += 1
        self.most = max(self.most, self._open)
        try:
            await asyncio.sleep(0)
        finally:
            self._open -= 1
        if last >= self._fails:
            raise TemporaryError("away")
        return [numbered_content(number, number >= self._changed) for number in range(first, last + 1)]


class Written:
    """What was written."""

    def __init__(self) -> None:
        self.changes: list[AddLogs] = []

    async def write(self, change: AddLogs) -> None:
        self.changes.append(change)

    def numbers(self, chain_id: int) -> list[int]:
        return [logs.block.number for change in self.changes if change.chain_id == chain_id for logs in change.blocks]


def backfill_of(
    readers: dict[int, Reader], ranges: dict[int, LogRange], written: Written, **more: ManualClock
) -> LogBackfill:
    return LogBackfill(readers, ranges, written.write, **more)  # type: ignore[arg-type]


async def test_all_ranges_are_written_in_order() -> None:
    """What is above the number to keep goes first; a part follows the one before."""
    readers, written = {1: Reader(), 2: Reader(), 3: Reader()}, Written()
    ranges = {1: LogRange(5, 4 + 6 * MAX_BLOCKS, NONE), 2: LogRange(50, 60, 49), 3: LogRange(7, 6, 3)}
    logs = backfill_of(readers, ranges, written)
    assert logs.total == 6 * MAX_BLOCKS + 11
    while not logs.is_complete:
        await logs.step()
    await logs.close()
    assert written.numbers(1) == [*range(5, 5 + 6 * MAX_BLOCKS)] and written.numbers(2) == [*range(50, 61)]
    keeps = [change.keep for change in written.changes if change.chain_id == 1]
    assert keeps == [NONE, *(4 + MAX_BLOCKS * part for part in range(1, 6))]
    assert [change.keep for change in written.changes if change.chain_id == 2] == [49]
    assert readers[1].most == IN_FLIGHT


async def test_nothing_to_read_is_complete() -> None:
    assert backfill_of({}, {}, Written()).is_complete


async def test_the_progress_says_how_long_it_takes() -> None:
    clock = ManualClock(100.0)
    logs = backfill_of({1: Reader()}, {1: LogRange(1, 4 * MAX_BLOCKS, NONE)}, Written(), clock=clock)
    assert logs.progress() == f"the logs of 0 of {4 * MAX_BLOCKS} blocks are read (0.0 %)"
    await logs.step()
    clock.now += 60
    assert logs.progress() == f"the logs of {MAX_BLOCKS} of {4 * MAX_BLOCKS} blocks are read (25.0 %), 3m0s left"
    await logs.close()


async def test_a_chain_that_changes_meanwhile_is_noticed() -> None:
    written = Written()
    logs = backfill_of({1: Reader(changed=MAX_BLOCKS)}, {1: LogRange(0, 2 * MAX_BLOCKS, NONE)}, written)
    await logs.step()
    with pytest.raises(TemporaryError, match=r"chain 1: block .* does not follow the one before it"):
        await logs.step()
    await logs.close()
    assert written.numbers(1)[-1] == MAX_BLOCKS - 1


async def test_an_error_of_a_chain_is_raised_and_the_reads_are_ended() -> None:
    """What another chain has written by then stays."""
    written = Written()
    logs = backfill_of(
        {1: Reader(fails=200), 2: Reader()}, {1: LogRange(0, 500, NONE), 2: LogRange(0, 5, NONE)}, written
    )
    with pytest.raises(TemporaryError, match="away"):
        while True:
            await logs.step()
    await logs.close()
    assert written.numbers(2) == [*range(6)] and written.numbers(1) == [*range(MAX_BLOCKS)]
