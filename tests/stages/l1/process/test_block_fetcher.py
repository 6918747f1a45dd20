"""Fetches of single blocks: each has one result, whatever happens to it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import orjson
import pytest

from rollup_node.ipc.bus.task_dispatcher import TaskFailed
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.l1 import tasks
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.newest_block import NewestBlock, NewestBody
from rollup_node.stages.l1.prefetch_window import Fetch
from rollup_node.stages.l1.process import block_fetcher
from rollup_node.stages.l1.process.block_fetcher import BlockFetcher, FetchResult
from rollup_node.stages.l1.process.client import L1Endpoint, L1Endpoints
from rollup_node.stages.protocol.answer_limits import AnswerLimit
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from tests.support.chains.fake_l1_chain import FakeL1Chain
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.processes.stage_runner import run_within
from tests.support.servers.http_listener import Methods, json_rpc_app, listening

ROLLUP = msgspec.structs.replace(PLAIN_ROLLUP, l1_chain_id=5)


class InlineWorkers:
    """Runs tasks of l1 at once, or raises an error for each."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    async def run(self, task: tasks.Task) -> tasks.Result:
        if self.error is not None:
            raise self.error
        return tasks.run(task)


def with_fetcher(
    methods: Methods,
    scenario: Callable[[BlockFetcher, asyncio.Event], Awaitable[None]],
    error: Exception | None = None,
    polled: Mapping[int, bytes] | None = None,
) -> None:
    """Runs a scenario with a fetcher and the event that it sets when a fetch has ended; `polled` are the answers to
    polls of the head, by number."""

    async def main() -> None:
        async with listening(json_rpc_app(methods)) as urls:
            config = L1Config(urls, ROLLUP, timeout=2.0)
            endpoints = L1Endpoints(config, Meter("l1"))
            newest = NewestBlock[L1Endpoint](12.0, lambda number: True)
            for number, body in (polled or {}).items():
                newest.put(NewestBody(endpoints.pick(), number, body))
            done = asyncio.Event()
            workers: Any = InlineWorkers(error)
            fetcher = BlockFetcher(config, endpoints, newest, workers, done.set)
            try:
                await scenario(fetcher, done)
            finally:
                await fetcher.close()
                await endpoints.close()

    run_within(20, main)


async def results(fetcher: BlockFetcher, done: asyncio.Event, count: int) -> list[FetchResult]:
    """The results of so many fetches, in the order of their numbers, without their endpoint."""
    found: list[FetchResult] = []
    while len(found) < count:
        await done.wait()
        done.clear()
        taken = fetcher.take_results()
        assert all((each.endpoint is None) == (each.error is not None) for each in taken)
        found += [each._replace(endpoint=None) for each in taken]
    return sorted(found, key=lambda result: result.fetch.number)


def test_each_fetch_has_one_result() -> None:
    chain = FakeL1Chain(5)
    methods = chain.methods(5)

    def by_number(number: str, full: bool) -> Any:
        if number == "0x3":
            raise JsonRpcError(-32000, "database is down")
        return methods["eth_getBlockByNumber"](number, full)

    async def scenario(fetcher: BlockFetcher, done: asyncio.Event) -> None:
        for number in (2, 3, 9):
            fetcher.start(Fetch(number, 0))
        assert len(fetcher) == 3
        block, failed, missing = await results(fetcher, done, 3)
        assert block == FetchResult(Fetch(2, 0), chain.block(2), None)
        assert failed.block is None and failed.error is not None
        assert failed.error.startswith("L1-BLOCK: L1 block 3: 127.0.0.1:") and "database is down" in failed.error
        assert missing == FetchResult(Fetch(9, 0), None, None)
        assert len(fetcher) == 0 and fetcher.take_results() == []

    with_fetcher({**methods, "eth_getBlockByNumber": by_number}, scenario)


def test_a_task_that_no_worker_completes_is_an_error() -> None:
    async def scenario(fetcher: BlockFetcher, done: asyncio.Event) -> None:
        fetcher.start(Fetch(2, 0))
        (result,) = await results(fetcher, done, 1)
        assert result.block is None and "3 workers died" in str(result.error)

    with_fetcher(FakeL1Chain(5).methods(5), scenario, TaskFailed("3 workers died"))


def test_a_bug_is_raised_where_results_are_taken() -> None:
    async def scenario(fetcher: BlockFetcher, done: asyncio.Event) -> None:
        fetcher.start(Fetch(2, 0))
        with pytest.raises(ZeroDivisionError):
            await results(fetcher, done, 1)

    with_fetcher(FakeL1Chain(5).methods(5), scenario, ZeroDivisionError())


def test_the_block_that_a_poll_of_the_head_has_brought_is_not_fetched() -> None:
    """[LHD25] Unless what it brought is wrong: that is an error, and the next fetch asks for the block."""
    chain, asked = FakeL1Chain(5), []
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": chain.block_json(3)})

    def by_number(number: str, full: bool) -> Any:
        asked.append(number)
        return chain.block_json(int(number, 16))

    async def scenario(fetcher: BlockFetcher, done: asyncio.Event) -> None:
        for expected in ([], ["0x3"]):
            fetcher.start(Fetch(3, 0))
            assert await results(fetcher, done, 1) == [FetchResult(Fetch(3, 0), chain.block(3), None)]
            assert asked == expected

    async def wrong(fetcher: BlockFetcher, done: asyncio.Event) -> None:
        fetcher.start(Fetch(4, 0))
        (failed,) = await results(fetcher, done, 1)
        assert failed.block is None and "requested block 4, got block 3" in str(failed.error)
        fetcher.start(Fetch(4, 0))
        assert await results(fetcher, done, 1) == [FetchResult(Fetch(4, 0), chain.block(4), None)]

    methods: Methods = {"eth_chainId": lambda: "0x5", "eth_getBlockByNumber": by_number}
    with_fetcher(methods, scenario, polled={3: body})
    with_fetcher(methods, wrong, polled={4: body})


def test_closing_cancels_running_fetches() -> None:
    async def never(number: str, full: bool) -> Any:
        await asyncio.Event().wait()

    async def scenario(fetcher: BlockFetcher, done: asyncio.Event) -> None:
        fetcher.start(Fetch(2, 0))
        await asyncio.sleep(0)
        await fetcher.close()
        assert done.is_set()

    with_fetcher({"eth_chainId": lambda: "0x5", "eth_getBlockByNumber": never}, scenario)


def test_blocks_of_long_answers_are_fetched_again_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """[LHD24]"""
    monkeypatch.setattr(block_fetcher, "ORDINARY_L1_BLOCK", AnswerLimit(1000, 1000))
    chain = FakeL1Chain(5)
    asked: list[str] = []

    def by_number(number: str, full: bool) -> Any:
        asked.append(number)
        return chain.methods(5)["eth_getBlockByNumber"](number, full)

    async def scenario(fetcher: BlockFetcher, done: asyncio.Event) -> None:
        for number in range(3):
            fetcher.start(Fetch(number, 0))
        assert [result.block for result in await results(fetcher, done, 3)] == [chain.block(n) for n in range(3)]
        assert sorted(asked) == sorted(2 * [hex(n) for n in range(3)])

    with_fetcher({**chain.methods(5), "eth_getBlockByNumber": by_number}, scenario)
