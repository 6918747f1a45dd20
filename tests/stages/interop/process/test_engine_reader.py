"""Reads of an engine over HTTP: verified, in batches, bounded [VR8, VR10]."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rollup_node.stages.interop.config import ChainEngine
from rollup_node.stages.interop.process import engine_reader
from rollup_node.stages.interop.process.engine_reader import EngineReader
from rollup_node.stages.protocol.answer_limits import AnswerLimit
from rollup_node.stages.protocol.errors import TemporaryError
from tests.support.interop.served_world import ServedChain, ServedWorld, served_engines
from tests.support.interop.values import dependency_set, member
from tests.support.interop.world import Logs

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
        reader = EngineReader(ChainEngine(chain.rollup, chain.url, b"\x42" * 32, 5.0))
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
            other = EngineReader(ChainEngine(chain.rollup, chain.url, b"\x42" * 32, 5.0))
            with pytest.raises(TemporaryError, match="returns block 4 for block 3"):
                await other.blocks(3, 3)
            await other.close()


async def test_an_engine_that_is_away_is_an_error() -> None:
    reader = EngineReader(ChainEngine(CONFIG.chains[1], "http://127.0.0.1:1", b"\x42" * 32, 5.0))
    with pytest.raises(TemporaryError, match=r"execution engine 127\.0\.0\.1:1: cannot connect"):
        await reader.blocks(1, 2)
    await reader.close()


async def test_an_engines_error_is_named() -> None:
    def fails(block_hash: str) -> Any:
        raise LookupError("pruned")

    async with reading(eth_getBlockReceipts=fails) as (reader, _):
        with pytest.raises(TemporaryError, match=r"eth_getBlockReceipts: .*pruned"):
            await reader.blocks(1, 2)
