"""The sources of known L2 blocks: valid blocks in both forms, and errors of files and of engines."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jwt
import msgspec
import orjson
import pytest
from aiohttp import web

from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.payloads import ExecutionPayload, payload_block_hash, payload_header
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.chain.blocks import header_json
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc
from rollup_node.tools.inspect import l2_source as module
from rollup_node.tools.inspect.l2_source import (
    BLOCK_SECONDS,
    HELD_SECONDS,
    LIMIT,
    MOST,
    EngineSource,
    FileSource,
    L2Prefetch,
    SourceError,
)
from tests.support.chains.chain_fixture import ChainFixture, block_entry
from tests.support.servers.http_listener import app_for_every_path, json_rpc_app, listening
from tests.support.timing.manual_clock import ManualClock


def _payloads(chain: ChainFixture, count: int) -> list[ExecutionPayload]:
    """Consecutive blocks from number 1 on."""
    return [chain.payloads[ref.hash] for ref in chain.build(count)[1:]]


def _block_json(payload: ExecutionPayload) -> dict[str, Any]:
    """Return a block without transactions as eth_getBlockByNumber returns it."""
    header = payload_header(payload)
    return {**header_json(header), "hash": "0x" + payload.block_hash.hex(), "transactions": [], "withdrawals": []}


def _write(folder: Path, content: Any) -> Path:
    path = folder / "blocks.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def _error_of(path: Path) -> str:
    with pytest.raises(SourceError) as raised:
        FileSource.read(path)
    return str(raised.value)


# --- files ---------------------------------------------------------------------------------------------------------


async def test_blocks_of_a_file_by_number(chain: ChainFixture, tmp_path: Path) -> None:
    first, second, third = _payloads(chain, 3)
    path = _write(tmp_path, [block_entry(third), block_entry(first, prefix="")])
    source = FileSource.read(path)
    assert source.numbers == [1, 3]
    assert await source.payload(1) == first
    assert await source.payload(3) == third
    assert await source.payload(second.block_number) is None
    await source.close()


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    assert _error_of(missing) == f"cannot read {missing}: No such file or directory"
    assert _error_of(tmp_path) == f"cannot read {tmp_path}: Is a directory"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert _error_of(path) == f"cannot read {path}: it is no file"


NO_LISTS: list[Any] = [[], {}, {"blocks": []}, None, 5, '"blocks"']


@pytest.mark.parametrize(
    ("content", "error"),
    [
        *((text, " is not JSON: ") for text in ("", "not JSON", "[{]", "\x00")),
        *((value, ": expected a list of blocks") for value in NO_LISTS),
    ],
)
def test_a_file_of_something_else(content: Any, error: str, tmp_path: Path) -> None:
    path = _write(tmp_path, content)
    assert _error_of(path).startswith(f"{path}{error}")


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: None,
        lambda entry: 5,
        lambda entry: {},
        lambda entry: {**entry, "header_rlp": "0xzz"},
        lambda entry: {**entry, "header_rlp": entry["header_rlp"][:-2]},
        lambda entry: {**entry, "header_rlp": "0xc0"},
        lambda entry: {**entry, "header_rlp": 5},
        lambda entry: {"header_rlp": entry["header_rlp"]},
        lambda entry: {**entry, "txs": None},
        lambda entry: {**entry, "txs": [5]},
        lambda entry: {**entry, "txs": ["0x0"]},
    ],
)
def test_a_malformed_block_is_named_by_its_index(
    damage: Callable[[dict[str, Any]], Any], chain: ChainFixture, tmp_path: Path
) -> None:
    first, second = (block_entry(payload) for payload in _payloads(chain, 2))
    path = _write(tmp_path, [first, damage(second)])
    assert _error_of(path).startswith(f"{path}: block 1 of the list: ")


# --- engines -------------------------------------------------------------------------------------------------------


async def _block_of(answer: Callable[[str, bool], Any]) -> ExecutionPayload | None:
    """Return the source's block 5 with an engine whose eth_getBlockByNumber is `answer`."""
    async with listening(json_rpc_app({"eth_getBlockByNumber": answer})) as (url,):
        source = EngineSource(url)
        try:
            return await source.payload(5)
        finally:
            await source.close()


def _emptied(payload: ExecutionPayload) -> ExecutionPayload:
    """Return the block without its transactions."""
    empty = msgspec.structs.replace(payload, transactions=())
    return msgspec.structs.replace(empty, block_hash=payload_block_hash(empty))


def _syncing(number: str, full: bool) -> None:
    raise JsonRpcError(-32000, "the engine is syncing")


async def test_what_is_wrong_with_an_answer_is_temporary(chain: ChainFixture) -> None:
    (payload,) = _payloads(chain, 1)
    answers: dict[str, Callable[[str, bool], Any]] = {
        ".*the engine is syncing": _syncing,
        "block 1: its content does not have the hash 0x": lambda number, full: _block_json(payload),
        "malformed block: ": lambda number, full: {"number": number},
        ".*the answer to eth_getBlockByNumber is malformed: Expected `object": lambda number, full: [number],
    }
    for error, answer in answers.items():
        with pytest.raises(TemporaryError, match=f"^L2 block 5: {error}"):
            await _block_of(answer)


async def test_with_a_secret_each_request_has_a_token() -> None:
    secret, tokens = b"\x07" * 32, []

    async def answer(request: web.Request) -> web.Response:
        tokens.append(request.headers.get("Authorization", ""))
        call = json.loads(await request.read())
        return web.json_response({"jsonrpc": "2.0", "id": call["id"], "result": None})

    async with listening(app_for_every_path(answer)) as (url,):
        for source in (EngineSource(url, secret), EngineSource(url)):
            assert await source.payload(5) is None
            await source.close()
    first, second = tokens
    assert jwt.decode(first.removeprefix("Bearer "), secret, algorithms=["HS256"])["iat"] > 0
    assert second == ""


REFUSED = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "no batches here"}}'


class Engine:
    """An engine with blocks 1 to `head`, all with the content of one.

    `requests` are the numbers of each request; `extra` characters pad each block."""

    def __init__(self, block: ExecutionPayload, head: int = 1_000_000) -> None:
        self.head, self.extra, self.refuses_batches = head, 0, False
        self.requests: list[list[int]] = []
        self.payload = _emptied(block)
        self._json = _block_json(self.payload)
        self._rpc = JsonRpc({module.METHOD: self._block})

    def _block(self, number: str, full: bool) -> dict[str, Any] | None:
        assert full
        self.requests[-1].append(int(number, 16))
        if int(number, 16) > self.head:
            return None
        return {**self._json, "extra": "x" * self.extra}

    async def respond(self, request: web.Request) -> web.Response:
        """Return the response to a request or a batch."""
        body = await request.read()
        self.requests.append([])
        if self.refuses_batches and isinstance(orjson.loads(body), list):
            return web.Response(body=REFUSED, content_type="application/json")
        return web.Response(body=await self._rpc.respond(body), content_type="application/json")


@pytest.fixture
def engine(chain: ChainFixture) -> Engine:
    """Return an engine that has more blocks than any test reads."""
    return Engine(chain.payloads[chain.build(1)[1].hash])


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(0.0)


@pytest.fixture
async def source(engine: Engine, clock: ManualClock) -> AsyncIterator[EngineSource]:
    """Provide a source of the engine's blocks."""
    async with listening(app_for_every_path(engine.respond)) as (url,):
        engine_source = EngineSource(url, clock=clock)
        yield engine_source
        await engine_source.close()


@contextmanager
def counting(engine: Engine) -> Iterator[list[int]]:
    """Yield the sizes of the requests that are made meanwhile."""
    sizes: list[int] = []
    before = len(engine.requests)
    yield sizes
    sizes += [len(numbers) for numbers in engine.requests[before:]]


async def _read(engine: Engine, source: EngineSource, numbers: Iterable[int]) -> None:
    for number in numbers:
        assert await source.payload(number) == engine.payload


async def test_blocks_one_after_the_other_come_in_batches(engine: Engine, source: EngineSource) -> None:
    await _read(engine, source, range(1, 201))
    first, second, *batches = engine.requests
    assert (first, second) == ([1], [2])
    assert {len(numbers) for numbers in batches} == {MOST}
    assert [number for numbers in engine.requests for number in numbers][:200] == list(range(1, 201))
    assert len(batches) <= 200 // MOST + 1


@pytest.mark.parametrize("numbers", [(7, 9, 11), (9, 8, 7), (5, 5, 5)])
async def test_blocks_in_no_order_are_read_alone(
    engine: Engine, source: EngineSource, numbers: tuple[int, ...]
) -> None:
    await _read(engine, source, numbers)
    assert engine.requests == [[number] for number in numbers]


async def test_blocks_that_are_asked_for_slowly_are_read_alone(
    engine: Engine, source: EngineSource, clock: ManualClock
) -> None:
    for number in range(1, 6):
        await _read(engine, source, [number])
        clock.now += BLOCK_SECONDS
    assert engine.requests == [[1], [2], [3], [4], [5]]


async def test_a_block_that_is_held_too_long_is_read_again(
    engine: Engine, source: EngineSource, clock: ManualClock
) -> None:
    await _read(engine, source, range(1, 5))
    clock.now += HELD_SECONDS + 0.1
    with counting(engine) as sizes:
        await _read(engine, source, [5])
    assert sizes == [1] and engine.requests[-1] == [5]


async def test_a_block_that_was_missing_is_asked_for_when_it_is_needed(engine: Engine, source: EngineSource) -> None:
    engine.head = 5
    await _read(engine, source, range(1, 6))
    assert await source.payload(6) is None
    engine.head = 100
    await _read(engine, source, range(6, 50))


async def test_an_engine_that_refuses_batches_is_asked_for_each_block(engine: Engine, source: EngineSource) -> None:
    """[LHD30]"""
    engine.refuses_batches = True
    await _read(engine, source, range(1, 101))
    assert engine.requests[:3] == [[1], [2], []]
    assert engine.requests.count([]) == 1 and max(map(len, engine.requests)) == 1


async def test_blocks_of_a_batch_that_is_too_long_are_read_alone(engine: Engine, source: EngineSource) -> None:
    engine.extra = LIMIT.bytes // MOST + 1
    await _read(engine, source, range(1, 30))
    assert [len(numbers) for numbers in engine.requests[:5]] == [1, 1, MOST, 1, 1]
    assert max(map(len, engine.requests[3:])) == 1


async def test_after_a_step_back_what_is_held_does_not_count(engine: Engine, source: EngineSource) -> None:
    await _read(engine, source, (*range(1, 40), *range(10, 60)))
    asked = [number for numbers in engine.requests for number in numbers]
    assert asked.count(10) == 2
    assert max(asked) < 60 + 2 * MOST


async def test_a_source_that_is_closed_reads_no_more(engine: Engine, clock: ManualClock) -> None:
    async with listening(app_for_every_path(engine.respond)) as (url,):
        client = JsonRpcClient(url)
        prefetch = L2Prefetch(client, clock)
        prefetch.follow(0)
        prefetch.follow(1)
        await prefetch.stop()
        assert await prefetch.take(30) is None
        await client.close()
    assert len(asyncio.all_tasks()) == 1
