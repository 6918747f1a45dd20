"""The Beacon API routes of light clients, and those that name blocks."""

from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web

from rollup_node.stages.l1.light_client.beacon_json import parse_update
from rollup_node.tools.devnet.files import l1_genesis
from rollup_node.tools.devnet.l1.backend import L1Backend
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
