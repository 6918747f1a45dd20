"""Reads of an engine: verified, in batches, bounded; the logs of before the first round, in order [VR8, VR10]."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.interop.config import ChainEngine
from rollup_node.stages.interop.process import engine_reader
from rollup_node.stages.interop.process.engine_reader import IN_FLIGHT, MAX_BLOCKS, EngineReader, LogBackfill
from rollup_node.stages.interop.rounds import NONE, AddLogs, ChainBlock, LogRange
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.answer_limits import AnswerLimit
from rollup_node.stages.protocol.errors import TemporaryError
from tests.support.interop.running_stage import Node, verify_all
from tests.support.interop.served_world import ServedChain, ServedWorld, served_engines
from tests.support.interop.values import GENESIS_TIME, Claim, dependency_set, member, numbered_content
from tests.support.interop.world import Logs
from tests.support.timing.manual_clock import ManualClock

CONFIG = dependency_set(member(1))
SCRIPT: dict[tuple[int, int], Logs] = {(1, number): (b"log %d" % number,) * number for number in range(1, 12)}


@asynccontextmanager
async def reading(**changes: Callable[..., Any]) -> AsyncIterator[tuple[EngineReader, ServedChain]]:
    """Yield a reader of blocks 0 to 17, of which 1 to 11 have logs; `changes` are methods of the engine."""
    world = ServedWorld(CONFIG, 1, SCRIPT)
    world.grow(7)
    world.follow(1)
    chain = ServedChain(world, 1)
    for name, method in changes.items():
        setattr(chain, name, method)
    async with served_engines([chain]):
        reader = EngineReader(ChainEngine(chain.url, b"\x42" * 32, 5.0))
        try:
            yield reader, chain
        finally:
            await reader.close()


async def test_blocks_of_a_range_are_read_with_their_logs() -> None:
    async with reading() as (reader, chain):
        blocks = await reader.blocks(0, 17)
        assert [block.logs.block for block in blocks] == [block.ref for block in chain.blocks()]
        assert [len(block.logs.log_hashes) // 32 for block in blocks] == [*range(12), *[0] * 6]
        assert len(chain.reads) == 18 + 11, "receipts of blocks with logs alone"


async def test_the_hash_of_a_block() -> None:
    async with reading() as (reader, chain):
        assert await reader.block_hash(3) == chain.blocks()[3].ref.hash
        assert await reader.block_hash(18) is None


async def test_long_receipts_are_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch whose answer is too long is halved; those of one block are bounded by its gas."""
    monkeypatch.setattr(engine_reader, "BATCH_LIMIT", AnswerLimit(12_000, 100_000))
    async with reading() as (reader, chain):
        assert len(await reader.blocks(1, 11)) == 11
        assert len(chain.reads) > 11 + 11


async def test_what_the_engine_lacks_is_an_error() -> None:
    async with reading() as (reader, _):
        with pytest.raises(TemporaryError, match="does not have all of the blocks 15 to 18"):
            await reader.blocks(15, 18)
    async with reading(eth_getBlockReceipts=lambda block_hash: None) as (reader, _):
        with pytest.raises(TemporaryError, match="has no receipts of block 1:"):
            await reader.blocks(1, 1)


async def test_what_does_not_belong_to_the_block_is_an_error() -> None:
    async with reading(eth_getBlockReceipts=lambda block_hash: []) as (reader, _):
        with pytest.raises(TemporaryError, match="do not match its receipts root"):
            await reader.blocks(1, 2)
    async with reading() as (reader, chain):
        real = chain.eth_getBlockByNumber
        chain.eth_getBlockByNumber = lambda name, full: real("0x4", full)  # type: ignore[method-assign]
        async with served_engines([chain]):
            other = EngineReader(ChainEngine(chain.url, b"\x42" * 32, 5.0))
            with pytest.raises(TemporaryError, match="returns block 4 for block 3"):
                await other.blocks(3, 3)
            await other.close()


async def test_an_engine_that_is_away_is_an_error() -> None:
    reader = EngineReader(ChainEngine("http://127.0.0.1:1", b"\x42" * 32, 5.0))
    with pytest.raises(TemporaryError, match=r"execution engine 127\.0\.0\.1:1: cannot connect"):
        await reader.blocks(1, 2)
    await reader.close()


async def test_an_engines_error_is_named() -> None:
    def fails(block_hash: str) -> Any:
        raise LookupError("pruned")

    async with reading(eth_getBlockReceipts=fails) as (reader, _):
        with pytest.raises(TemporaryError, match=r"eth_getBlockReceipts: .*pruned"):
            await reader.blocks(1, 2)


class Reader:
    """An engine whose blocks from `changed` on are others; `most` is how many reads were open at a time."""

    def __init__(self, changed: int = 10**9, fails: int = 10**9) -> None:
        self._changed, self._fails, self._open, self.most = changed, fails, 0, 0

    async def blocks(self, first: int, last: int) -> Sequence[ChainBlock]:
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


PAIR = dependency_set(member(1), member(2), activation=GENESIS_TIME, window=100)
NEVER_SAID = Claim(2, 1, 0, GENESIS_TIME + 1, b"never said")


async def test_what_is_derived_while_logs_are_read_is_verified(tmp_path: Path) -> None:
    """[VR10]: an engine fails at first, and the process starts again; the chains go on meanwhile."""
    world = ServedWorld(PAIR, 1, {(1, 20): (NEVER_SAID,)})
    node = Node(world, tmp_path / "interop", 100)
    world.grow(3)
    for chain_id in PAIR.chains:
        world.follow(chain_id)
    async with served_engines(list(node.chains.values())):
        node.chains[2].is_away = True
        await node.start()
        await node.until(lambda: node.code() is not None)
        reading = next(problem for problem in node.problems if problem.code is Code.INTEROP_BACKFILL)
        assert "blocks are read" in reading.text
        started = node.chains[1].start
        await node.stop()
        node.grow(8)
        node.follow()
        await node.start()
        await node.until(lambda: node.code() is not None)
        node.chains[2].is_away = False
        await node.until_prepared()
        assert not node.problems
        node.grow(2)
        await verify_all(node)
        assert started is not None and started.number < 20
        assert [block.number for block in node.verdict(1).denied] == [20]
        await node.stop()
