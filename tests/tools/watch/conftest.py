"""An L1 with the contracts of games, a reader of it, and a node with roots."""

from collections.abc import AsyncIterator

import pytest

from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.devnet.games import ANCHOR, FACTORY
from rollup_node.tools.watch.l1_reader import L1Reader
from tests.support.chains.l1_with_games import L1WithGames, NodeWithRoots
from tests.support.servers.http_listener import json_rpc_app, listening


@pytest.fixture
def l1() -> L1WithGames:
    return L1WithGames()


@pytest.fixture
def node() -> NodeWithRoots:
    return NodeWithRoots()


@pytest.fixture
async def reader(l1: L1WithGames) -> AsyncIterator[L1Reader]:
    async with listening(json_rpc_app(l1.methods())) as (url,):
        client = JsonRpcClient(url)
        yield L1Reader(client, to_hex(FACTORY), to_hex(ANCHOR))
        await client.close()
