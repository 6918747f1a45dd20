"""Blocks that are prefetched: in batches, where blocks are asked for one after the other and soon, and held no longer
than they are surely those of the chain."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import orjson
import pytest
from aiohttp import web

from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.payloads import ExecutionPayload, payload_block_hash, payload_header
from rollup_node.tools.devnet.chain.responses import header_json
from rollup_node.tools.devnet.serving.jsonrpc_server import JsonRpc
from rollup_node.tools.inspect import l2_prefetch
from rollup_node.tools.inspect.l2_prefetch import BLOCK_SECONDS, HELD_SECONDS, LIMIT, MOST, PAUSE, L2Prefetch
from rollup_node.tools.inspect.l2_source import EngineSource
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.servers.http_listener import app_for_every_path, listening

REFUSED = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "no batches here"}}'


class Engine:
    """An engine with blocks 1 to `head`, all with the content of one. `requests` are the numbers of each request;
    `extra` characters pad each block."""

    def __init__(self, block: ExecutionPayload, head: int = 1_000_000) -> None:
        self.head, self.extra, self.refuses_batches = head, 0, False
        self.requests: list[list[int]] = []
        empty = msgspec.structs.replace(block, transactions=())
        self.payload = msgspec.structs.replace(empty, block_hash=payload_block_hash(empty))
        block_hash = "0x" + self.payload.block_hash.hex()
        self._json = {**header_json(payload_header(self.payload)), "hash": block_hash, "transactions": []}
        self._rpc = JsonRpc({l2_prefetch.METHOD: self._block})

    def _block(self, number: str, full: bool) -> dict[str, Any] | None:
        assert full
        self.requests[-1].append(int(number, 16))
        if int(number, 16) > self.head:
            return None
        return {**self._json, "withdrawals": [], "extra": "x" * self.extra}

    async def respond(self, request: web.Request) -> web.Response:
        """The response to a request or a batch."""
        body = await request.read()
        self.requests.append([])
        if self.refuses_batches and isinstance(orjson.loads(body), list):
            return web.Response(body=REFUSED, content_type="application/json")
        return web.Response(body=await self._rpc.respond(body), content_type="application/json")


class Clock:
    """Seconds that a test advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def engine(chain: ChainFixture) -> Engine:
    """An engine that has more blocks than any test reads."""
    return Engine(chain.payloads[chain.build(1)[1].hash])


@pytest.fixture
def clock() -> Clock:
    """The clock of the source."""
    return Clock()


def with_source(engine: Engine, clock: Clock, scenario: Callable[[EngineSource], Awaitable[None]]) -> None:
    """Runs a scenario with a source of the engine's blocks."""

    async def run() -> None:
        async with listening(app_for_every_path(engine.respond)) as (url,):
            source = EngineSource(url, clock=clock)
            try:
                await scenario(source)
            finally:
                await source.close()

    asyncio.run(run())


@contextmanager
def counting(engine: Engine) -> Iterator[list[int]]:
    """The sizes of the requests that are made meanwhile."""
    sizes: list[int] = []
    before = len(engine.requests)
    yield sizes
    sizes += [len(numbers) for numbers in engine.requests[before:]]


def test_blocks_one_after_the_other_come_in_batches(engine: Engine, clock: Clock) -> None:
    async def scenario(source: EngineSource) -> None:
        for number in range(1, 201):
            assert await source.payload(number) == engine.payload

    with_source(engine, clock, scenario)
    first, second, *batches = engine.requests
    assert (first, second) == ([1], [2])
    assert {len(numbers) for numbers in batches} == {MOST}
    assert [number for numbers in engine.requests for number in numbers][:200] == list(range(1, 201))
    assert len(batches) <= 200 // MOST + 1


@pytest.mark.parametrize("numbers", [(7, 9, 11), (9, 8, 7), (5, 5, 5)])
def test_blocks_in_no_order_are_read_alone(engine: Engine, clock: Clock, numbers: tuple[int, ...]) -> None:
    async def scenario(source: EngineSource) -> None:
        for number in numbers:
            assert await source.payload(number) == engine.payload

    with_source(engine, clock, scenario)
    assert engine.requests == [[number] for number in numbers]


def test_blocks_that_are_asked_for_slowly_are_read_alone(engine: Engine, clock: Clock) -> None:
    async def scenario(source: EngineSource) -> None:
        for number in range(1, 6):
            assert await source.payload(number) == engine.payload
            clock.now += BLOCK_SECONDS

    with_source(engine, clock, scenario)
    assert engine.requests == [[1], [2], [3], [4], [5]]


def test_a_block_that_is_held_too_long_is_read_again(engine: Engine, clock: Clock) -> None:
    async def scenario(source: EngineSource) -> None:
        for number in range(1, 5):
            await source.payload(number)
        clock.now += HELD_SECONDS + 0.1
        with counting(engine) as sizes:
            assert await source.payload(5) == engine.payload
        assert sizes == [1]

    with_source(engine, clock, scenario)
    assert engine.requests[-1] == [5]


def test_a_block_that_was_missing_is_asked_for_when_it_is_needed(engine: Engine, clock: Clock) -> None:
    engine.head = 5

    async def scenario(source: EngineSource) -> None:
        for number in range(1, 6):
            assert await source.payload(number) == engine.payload
        assert await source.payload(6) is None
        engine.head = 100
        for number in range(6, 50):
            assert await source.payload(number) == engine.payload

    with_source(engine, clock, scenario)


def test_an_engine_that_refuses_batches_is_asked_for_each_block(engine: Engine, clock: Clock) -> None:
    engine.refuses_batches = True

    async def scenario(source: EngineSource) -> None:
        for number in range(1, 101):
            assert await source.payload(number) == engine.payload
        engine.refuses_batches = False
        with counting(engine) as sizes:
            await source.payload(101 + PAUSE)
            await source.payload(102 + PAUSE)
            await source.payload(103 + PAUSE)
        assert sizes == [1, 1, MOST]

    with_source(engine, clock, scenario)
    assert engine.requests[:101] == [[1], [2], [], *([number] for number in range(3, 101))]


def test_blocks_of_a_batch_that_is_too_long_are_read_alone(engine: Engine, clock: Clock) -> None:
    engine.extra = LIMIT.bytes // MOST + 1

    async def scenario(source: EngineSource) -> None:
        for number in range(1, 30):
            assert await source.payload(number) == engine.payload

    with_source(engine, clock, scenario)
    assert [len(numbers) for numbers in engine.requests[:5]] == [1, 1, MOST, 1, 1]
    assert max(map(len, engine.requests[3:])) == 1


def test_after_a_step_back_what_is_held_does_not_count(engine: Engine, clock: Clock) -> None:
    async def scenario(source: EngineSource) -> None:
        for number in (*range(1, 40), *range(10, 60)):
            assert await source.payload(number) == engine.payload

    with_source(engine, clock, scenario)
    asked = [number for numbers in engine.requests for number in numbers]
    assert asked.count(10) == 2
    assert max(asked) < 60 + 2 * MOST


def test_a_source_that_is_closed_reads_no_more(engine: Engine, clock: Clock) -> None:
    async def run() -> None:
        async with listening(app_for_every_path(engine.respond)) as (url,):
            client = JsonRpcClient(url)
            prefetch = L2Prefetch(client, clock)
            prefetch.follow(0)
            prefetch.follow(1)
            await prefetch.stop()
            assert await prefetch.take(30) is None
            await client.close()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())
