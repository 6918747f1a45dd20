"""Decoding by workers, prefetched and on demand, and in this process when they fail at it."""

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rollup_node.ipc.bus.task_dispatcher import TaskFailed
from rollup_node.stages.derivation.codec.batches import RejectedBatch, SingularBatch, SpanBatch
from rollup_node.stages.derivation.codec.packed import PackedBytes, PackedTransactions, TransactionChunk
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.pipeline.channel_reader import need_decoded
from rollup_node.stages.derivation.pipeline.outputs import NeedDecoded
from rollup_node.stages.derivation.process.decoding_client import MAX_RUNNING, DecodingClient, result_memory
from rollup_node.stages.derivation.reasons.channels import SpanTransactionInvalid
from rollup_node.stages.derivation.tasks import DecodeChannel, DecodedChannel, run
from rollup_node.stages.protocol.forks.rules import L1Rules

ALL = MAX_RUNNING + 5


def _need(number: int) -> NeedDecoded:
    return need_decoded(zlib.compress(b"\x83abc" * number), L1Rules(), SpanRules(1, 1, 2))


class RecordedPool:
    """Runs tasks once `gate` is open, or fails them."""

    def __init__(self, fails: bool) -> None:
        self.gate = asyncio.Event()
        self.started: list[DecodeChannel] = []
        self._fails = fails

    async def run(self, task: DecodeChannel) -> DecodedChannel:
        self.started.append(task)
        await self.gate.wait()
        if self._fails:
            raise TaskFailed("3 workers died of it")
        return run(task)


class DecodingHarness:
    """A client with a pool; `result` waits for a result."""

    def __init__(self, fails: bool) -> None:
        self.pool = RecordedPool(fails)
        self._news = asyncio.Event()
        self.client = DecodingClient(self.pool, self._news.set)

    async def result(self, need: NeedDecoded) -> DecodedChannel:
        async with asyncio.timeout(30):
            while (result := self.client.result(need)) is None:
                await self._news.wait()
                self._news.clear()
        return result


@asynccontextmanager
async def decoding(fails: bool = False) -> AsyncIterator[DecodingHarness]:
    harness = DecodingHarness(fails)
    yield harness
    await harness.client.close()


async def test_a_prefetched_channel_is_decoded_once() -> None:
    async with decoding() as harness:
        harness.client.prefetch(_need(1))
        harness.pool.gate.set()
        assert await harness.result(_need(1)) == run(_need(1).task)
        harness.client.prefetch(_need(1))
        assert len(harness.pool.started) == 1


async def test_prefetches_are_limited_and_a_need_goes_first() -> None:
    async with decoding() as harness:
        for number in range(ALL):
            harness.client.prefetch(_need(number))
        last = _need(ALL - 1)
        assert harness.client.result(last) is None
        await asyncio.sleep(0)
        assert len(harness.pool.started) == MAX_RUNNING + 1
        assert last.task in harness.pool.started
        harness.pool.gate.set()
        for number in range(ALL):
            assert await harness.result(_need(number)) == run(_need(number).task)
        assert len(harness.pool.started) == ALL


async def test_queued_prefetches_can_be_discarded() -> None:
    async with decoding() as harness:
        for number in range(ALL):
            harness.client.prefetch(_need(number))
        assert harness.client.outstanding == ALL
        harness.client.clear_queue()
        assert harness.client.outstanding == MAX_RUNNING
        harness.pool.gate.set()
        for number in range(MAX_RUNNING):
            await harness.result(_need(number))
        later = _need(ALL)
        await harness.result(later)
        assert harness.pool.started[MAX_RUNNING:] == [later.task]


async def test_a_channel_that_workers_fail_at_is_decoded_here() -> None:
    async with decoding(fails=True) as harness:
        harness.pool.gate.set()
        assert await harness.result(_need(3)) == run(_need(3).task)


def test_the_memory_of_a_result_counts_transactions() -> None:
    batch = SingularBatch(b"", 0, b"", 0, (bytes(967),))
    rejected = RejectedBatch(SpanTransactionInvalid(0, ""))
    assert result_memory(DecodedChannel((batch, rejected), None)) == 500 + 2 * 700 + 41 + 967


def test_the_memory_of_a_result_counts_packed_batches() -> None:
    chunks = (TransactionChunk(9, 9, b"a", False, bytes(3000)),)
    span = SpanBatch(b"", b"", 0, 2, 1, 0, 0, bytes(70), PackedBytes(9, (bytes(80),)), PackedTransactions(chunks, 0, 9))
    assert result_memory(DecodedChannel((span,), None)) == 500 + 700 + 70 + 250 + 80 + 250 + 3000
