"""Fetches of blocks, alone and several by one request: each has one result, whatever happens to it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from rollup_node.ipc.bus.task_dispatcher import TaskFailed
from rollup_node.stages.l1 import tasks
from rollup_node.stages.l1.endpoint_pool import EndpointFault
from rollup_node.stages.l1.head_tracker import NewestBlock, NewestBody
from rollup_node.stages.l1.prefetch_window import FIRST_BLOCKS, Fetch, HeldAnswers
from rollup_node.stages.l1.process import block_fetcher
from rollup_node.stages.l1.process.block_fetcher import BlockFetcher, FetchResult
from rollup_node.stages.l1.process.client import L1Endpoint
from rollup_node.stages.protocol.answer_limits import AnswerLimit
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from tests.support.chains.fake_l1_chain import FakeL1Chain
from tests.support.servers.http_listener import Methods, json_rpc_app
from tests.support.servers.l1_endpoints import served

DOWN = JsonRpcError(-32000, "database is down")


class InlineWorkers:
    """Runs tasks of l1 at once, or raises an error for each."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    async def run(self, task: tasks.Task) -> tasks.Result:
        if self.error is not None:
            raise self.error
        return tasks.run(task)


@dataclass
class Batches:
    """What an endpoint does with batches: it answers those of blocks with `status` and `body`, if that is not 200.

    `sizes` of the requests for blocks, 1 for a single call."""

    status: int = 200
    body: str = ""
    sizes: list[int] = field(default_factory=list)

    def app(self, methods: Methods) -> web.Application:
        """Return an endpoint that does so, and answers these methods."""

        @web.middleware
        async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
            asked = orjson.loads(await request.read())
            is_batch = isinstance(asked, list)
            if (asked[0] if is_batch else asked)["method"] == "eth_getBlockByNumber":
                self.sizes.append(len(asked) if is_batch else 1)
            if is_batch and self.body:
                return web.Response(status=self.status, text=self.body, content_type="application/json")
            return await handler(request)

        app = json_rpc_app(methods)
        app.middlewares.append(middleware)
        return app


@asynccontextmanager
async def running_fetcher(
    methods: Methods,
    error: Exception | None = None,
    polled: Mapping[int, bytes] | None = None,
    batches: Batches | None = None,
    **options: Any,
) -> AsyncIterator[tuple[BlockFetcher, asyncio.Event]]:
    """Yield a fetcher and the event that it sets when a fetch has ended.

    `polled` are the answers to polls of the head, by number, and `options` those of L1Config."""
    async with served((batches or Batches()).app(methods), **options) as (config, endpoints, _):
        newest = NewestBlock[L1Endpoint](12.0, lambda number: True)
        for number, body in (polled or {}).items():
            newest.put(NewestBody(endpoints.pick(), number, body))
        done = asyncio.Event()
        workers: Any = InlineWorkers(error)
        fetcher = BlockFetcher(config, endpoints, newest, workers, done.set)
        try:
            yield fetcher, done
        finally:
            await fetcher.close()


async def results(fetcher: BlockFetcher, done: asyncio.Event, count: int) -> list[FetchResult]:
    """Return the results of so many fetches, in the order of their numbers, without their endpoint."""
    value: list[FetchResult] = []
    while len(value) < count:
        await done.wait()
        done.clear()
        taken = fetcher.take_results()
        assert all((item.endpoint is None) == (item.error is not None) for item in taken)
        value += [item._replace(endpoint=None) for item in taken]
    return sorted(value, key=lambda result: result.fetch.number)


async def test_each_fetch_has_one_result() -> None:
    chain = FakeL1Chain(5)
    async with running_fetcher(chain.methods(5, **{"0x3": DOWN})) as (fetcher, done):
        for number in (2, 3, 9):
            fetcher.start([Fetch(number, 0)])
        assert len(fetcher) == 3
        block, failed, missing = await results(fetcher, done, 3)
        assert block == FetchResult(Fetch(2, 0), (chain.block(2),), None)
        assert failed.blocks is None and failed.error is not None
        error = str(failed.error)
        assert error.startswith("L1-BLOCK: L1 block 3: 127.0.0.1:") and "database is down" in error
        assert missing == FetchResult(Fetch(9, 0), None, None)
        assert len(fetcher) == 0 and fetcher.take_results() == []
        (verdict,) = fetcher._endpoints.pool.verdicts
        assert verdict is not None and verdict.fault is EndpointFault.FAILING


async def test_a_task_that_no_worker_completes_is_an_error() -> None:
    async with running_fetcher(FakeL1Chain(5).methods(5), TaskFailed("3 workers died")) as (fetcher, done):
        fetcher.start([Fetch(2, 0)])
        (result,) = await results(fetcher, done, 1)
        assert result.blocks is None and "3 workers died" in str(result.error)
        assert fetcher._endpoints.pool.verdicts == [None], "that is not its failure"


async def test_a_bug_is_raised_where_results_are_taken() -> None:
    async with running_fetcher(FakeL1Chain(5).methods(5), ZeroDivisionError()) as (fetcher, done):
        fetcher.start([Fetch(2, 0)])
        with pytest.raises(ZeroDivisionError):
            await results(fetcher, done, 1)


async def test_the_block_that_a_poll_of_the_head_has_brought_is_not_fetched() -> None:
    """[LHD25] Unless what it brought is wrong: that is an error, and the next fetch asks for the block."""
    chain = FakeL1Chain(5)
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": chain.block_json(3)})

    methods = chain.methods(5)
    async with running_fetcher(methods, polled={3: body}) as (fetcher, done):
        for expected in ([], [("0x3", True)]):
            fetcher.start([Fetch(3, 0)])
            assert await results(fetcher, done, 1) == [FetchResult(Fetch(3, 0), (chain.block(3),), None)]
            assert chain.asked == expected
    async with running_fetcher(methods, polled={4: body}) as (fetcher, done):
        fetcher.start([Fetch(4, 0)])
        (failed,) = await results(fetcher, done, 1)
        assert failed.blocks is None and "requested block 4, got block 3" in str(failed.error)
        fetcher.start([Fetch(4, 0)])
        assert await results(fetcher, done, 1) == [FetchResult(Fetch(4, 0), (chain.block(4),), None)]


async def test_closing_cancels_running_fetches() -> None:
    async def never(number: str, full: bool) -> Any:
        await asyncio.Event().wait()

    async with running_fetcher({"eth_chainId": lambda: "0x5", "eth_getBlockByNumber": never}) as (fetcher, done):
        fetcher.start([Fetch(2, 0)])
        await asyncio.sleep(0)
        await fetcher.close()
        assert done.is_set()


async def test_blocks_of_long_answers_are_fetched_again_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """[LHD24]"""
    monkeypatch.setattr(block_fetcher, "ORDINARY_L1_BLOCK", AnswerLimit(1000, 1000))
    chain = FakeL1Chain(5)
    async with running_fetcher(chain.methods(5)) as (fetcher, done):
        for number in range(3):
            fetcher.start([Fetch(number, 0)])
        assert [result.blocks for result in await results(fetcher, done, 3)] == [(chain.block(n),) for n in range(3)]
        assert sorted(chain.asked) == sorted(2 * [(hex(n), True) for n in range(3)])


def fetches(*numbers: int) -> list[Fetch]:
    return [Fetch(number, 0) for number in numbers]


async def test_in_a_batch_a_block_that_fails_or_does_not_exist_costs_no_other() -> None:
    chain, batches = FakeL1Chain(9), Batches()
    methods = chain.methods(5, **{"0x3": DOWN})

    def by_number(number: str, full: bool) -> Any:
        return methods["eth_getBlockByNumber"]("0x2" if number == "0x4" else number, full)

    async with running_fetcher({**methods, "eth_getBlockByNumber": by_number}, batches=batches) as (fetcher, done):
        fetcher.start(fetches(2, 3, 4, 9))
        assert len(fetcher) == 1
        block, failed, wrong, missing = await results(fetcher, done, 4)
        assert block.blocks == (chain.block(2),)
        assert "database is down" in str(failed.error)
        assert "requested block 4, got block 2" in str(wrong.error)
        assert missing == FetchResult(Fetch(9, 0), None, None)
        assert batches.sizes == [4]


REFUSED = '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batch requests are not supported"}}'


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, REFUSED), (400, REFUSED), (500, "no"), (413, "too large"), (200, "[]"), (200, "<html>")],
)
async def test_where_batches_are_refused_each_block_is_asked_for_alone(status: int, body: str) -> None:
    """[LHD30]"""
    chain, batches = FakeL1Chain(9), Batches(status, body)

    async with running_fetcher(chain.methods(5), batches=batches) as (fetcher, done):
        for first in (2, 4):
            fetcher.start(fetches(first, first + 1))
            blocks = [result.blocks for result in await results(fetcher, done, 2)]
            assert blocks == [(chain.block(first),), (chain.block(first + 1),)]
        assert batches.sizes == [2, 1, 1, 1, 1]
        assert fetcher.request_size == 1


async def test_a_batch_at_an_endpoint_that_throttles_is_not_tried_block_by_block() -> None:
    chain, batches = FakeL1Chain(9), Batches(429, "busy")
    async with running_fetcher(chain.methods(5), batches=batches) as (fetcher, done):
        fetcher.start(fetches(2, 3))
        value = await results(fetcher, done, 2)
        assert all("429" in str(result.error) for result in value)
        assert batches.sizes == [2]


async def test_a_batch_with_a_long_answer_is_fetched_again_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """[LHD24]"""
    chain, batches = FakeL1Chain(9), Batches()
    size = len(orjson.dumps(chain.block_json(3)))
    monkeypatch.setattr(block_fetcher, "ORDINARY_L1_BLOCK", AnswerLimit(size + 500, 10_000))
    async with running_fetcher(chain.methods(5), batches=batches) as (fetcher, done):
        fetcher.start(fetches(2, 3))
        assert [result.blocks for result in await results(fetcher, done, 2)] == [(chain.block(2),), (chain.block(3),)]
        assert batches.sizes == [2, 1, 1]


@pytest.mark.parametrize(
    ("latency", "options", "requests", "size", "blocks"),
    [
        (0.1, {"max_concurrency": 10}, 10, 3, FIRST_BLOCKS),
        (0.1, {"max_concurrency": 1}, 1, 8, 8),
        (0.02, {"max_concurrency": 0}, 1, 6, 6),
        (0.1, {"max_concurrency": 1, "max_batch": 1}, 1, 1, 1),
        (0.1, {"max_concurrency": 1, "rate_limit": 1.0}, 1, 1, 1),
    ],
)
async def test_requests_ask_for_more_blocks_where_answers_take_longer(
    latency: float, options: dict[str, Any], requests: int, size: int, blocks: int
) -> None:
    async with served(json_rpc_app({}), **options) as (config, endpoints, _):
        workers: Any = InlineWorkers()
        newest = NewestBlock[L1Endpoint](12.0, lambda number: False)
        fetcher = BlockFetcher(config, endpoints, newest, workers, lambda: None)
        assert fetcher.request_size == 1, "no answer has come yet"
        endpoints.pick().record.latency = latency
        assert (fetcher.request_room, fetcher.request_size, fetcher.block_room) == (requests, size, blocks)


async def test_no_more_blocks_are_begun_than_their_answers_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """[LHD19]"""
    chain = FakeL1Chain(9)
    most = 4 * len(orjson.dumps(chain.block_json(3)))
    monkeypatch.setattr(block_fetcher, "HeldAnswers", partial(HeldAnswers, most))
    async with running_fetcher(chain.methods(5), max_concurrency=10) as (fetcher, done):
        assert fetcher.block_room == 10
        fetcher.start(fetches(2, 3))
        await results(fetcher, done, 2)
        assert fetcher.block_room == 3
        for number in (4, 5, 6):
            fetcher.start(fetches(number))
        assert fetcher.block_room == 0
        await results(fetcher, done, 3)
        assert fetcher.block_room == 3
        fetcher.start([Fetch(99, 0)])
        await results(fetcher, done, 1)
        assert fetcher.block_room == 3
