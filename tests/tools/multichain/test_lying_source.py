"""A source that lies to the sequencer that follows it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.tools.multichain.lying_source import HEADS, LIES, ZERO, LyingSource
from tests.support.servers.http_listener import json_rpc_app, listening


def status_at(number: int) -> dict[str, Any]:
    """Return a status whose local safe head has that number, the others lower ones."""
    heads = {
        name: {"hash": f"0x{number - back:064x}", "number": number - back, "timestamp": 1000 + 2 * (number - back)}
        for back, name in enumerate(HEADS)
    }
    return {**heads, "unsafe_l2": heads[HEADS[0]]}


class Told:
    """What a sequencer hears of a supernode with the status `status`."""

    def __init__(self, client: JsonRpcClient, source: LyingSource) -> None:
        self.client, self.source, self.status = client, source, status_at(9)

    async def ask(self) -> Any:
        return await self.client.call("optimism_syncStatus")


@pytest.fixture
async def told() -> AsyncIterator[Told]:
    heard: list[Told] = []
    methods = {"optimism_syncStatus": lambda: heard[0].status, "optimism_rollupConfig": lambda: {"l2_chain_id": 901}}
    async with listening(json_rpc_app(methods)) as (url,):
        source = LyingSource(url, 2)
        await source.start()
        client = JsonRpcClient(source.url, timeout=5.0)
        heard.append(Told(client, source))
        yield heard[0]
        await client.close()
        await source.close()


async def test_what_is_told(told: Told) -> None:
    await told.ask()
    told.status = truth = status_at(20)
    heard: dict[str, Any] = {}
    for lie in LIES:
        told.source.lie = lie
        heard[lie] = None if lie == "an error" else await told.ask()
    block = heard["a block that nobody has"]["safe_l2"]
    assert (block["number"], block["timestamp"], block["parentHash"]) == (21, 1042, truth["local_safe_l2"]["hash"])
    assert all(heard["other blocks"][name]["hash"] != truth[name]["hash"] for name in HEADS)
    assert all(heard["heads of zeros"][name]["hash"] == ZERO for name in HEADS)
    order = heard["heads in another order"]
    assert order["safe_l2"]["number"] > order["local_safe_l2"]["number"]
    assert heard["the first status again"] == status_at(9) and heard["no status"] is None
