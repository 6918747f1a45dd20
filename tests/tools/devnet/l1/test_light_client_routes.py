"""The Beacon API routes of light clients, and those that name blocks."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from rollup_node.stages.l1.light_client.beacon_json import parse_update
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.devnet.files import l1_genesis
from rollup_node.tools.devnet.l1.backend import FINALIZED_DISTANCE, L1Backend
from rollup_node.tools.devnet.l1.light_client_routes import add_routes
from tests.support.servers.http_listener import listening
from tests.support.timing.conditions import until

Get = Callable[[str], Awaitable[tuple[int, bytes]]]
HEAD = 8


@pytest.fixture
def chain() -> L1Backend:
    return L1Backend(l1_genesis(1_700_000_000), 2)


@pytest.fixture
async def get(chain: L1Backend) -> AsyncIterator[Get]:
    """Yield a function that returns status and body of a GET request."""
    app = web.Application()
    add_routes(app, chain)
    async with listening(app) as (url,), aiohttp.ClientSession() as session:

        async def get(path: str) -> tuple[int, bytes]:
            async with session.get(f"{url}/eth/v1/beacon/{path}") as response:
                return response.status, await response.read()

        yield get


def mine(chain: L1Backend, blocks: int = HEAD) -> None:
    for _ in range(blocks):
        chain.mine(chain.chain.head.header.timestamp + 2)


async def test_a_stream_says_that_there_is_a_new_update(chain: L1Backend) -> None:
    """With the update, once for each block that comes; other topics are refused."""
    app = web.Application()
    add_routes(app, chain)
    async with listening(app) as (url,), aiohttp.ClientSession() as session:
        async with session.get(f"{url}/eth/v1/events?topics=head") as response:
            assert response.status == 400
        async with session.get(f"{url}/eth/v1/events?topics=light_client_optimistic_update") as response:
            for slot in (2, 3):
                mine(chain, 2 if slot == 2 else 1)
                assert await response.content.readline() == b"event: light_client_optimistic_update\n"
                name, _, data = (await response.content.readline()).partition(b": ")
                assert name == b"data" and parse_update(data, chain.network).attested_header.beacon.slot == slot - 1
                assert await response.content.readline() == b"\n"

        def is_gone() -> bool:
            mine(chain, 1)
            return not chain.on_head

        await until(is_gone)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("bootstrap/0x12", 400),
        (f"bootstrap/0x{'11' * 32}", 404),
        ("updates?start_period=x&count=1", 400),
        ("updates?start_period=1", 400),
        ("finality_update", 404),
        ("optimistic_update", 404),
    ],
)
async def test_what_there_is_not(get: Get, path: str, status: int) -> None:
    assert (await get(f"light_client/{path}"))[0] == status


async def test_blocks_by_their_names(chain: L1Backend, get: Get) -> None:
    mine(chain)
    finalized = HEAD - FINALIZED_DISTANCE
    roots: dict[str, Any] = {}
    for name, slot in (("head", HEAD), ("finalized", finalized), ("genesis", 0), ("3", 3)):
        block = chain.chain.at(slot)
        assert block is not None
        roots[name] = to_hex(chain.headers.root(block))
        status, body = await get(f"blocks/{name}/root")
        assert status == 200 and roots[name].encode() in body and (b'"finalized":true' in body) is (name != "head")
        assert (await get(f"headers/{name}")) == (await get(f"headers/{roots[name]}"))
        assert f'"slot":"{slot}"'.encode() in (await get(f"headers/{name}"))[1]
    assert len(set(roots.values())) == 4
    for name in ("99", "0x" + "11" * 32, "justified"):
        assert (await get(f"headers/{name}"))[0] == (await get(f"blocks/{name}/root"))[0] == 404
