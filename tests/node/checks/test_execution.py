"""Whether an endpoint is an execution node; the other checks are in the tests of the start."""

import asyncio

from rollup_node.node.checks.execution import is_execution_node
from tests.support.servers.http_listener import json_rpc_app, listening


def test_what_an_execution_node_is() -> None:
    async def run() -> tuple[bool, bool]:
        async with listening(json_rpc_app({"eth_chainId": lambda: "0x1"}), json_rpc_app({})) as (node, other):
            return await is_execution_node(node, 20.0), await is_execution_node(other, 20.0)

    assert asyncio.run(run()) == (True, False)
