"""Whether an endpoint is an execution node; the other checks are in the tests of the start."""

from rollup_node.node.checks.execution import is_execution_node
from tests.support.servers.http_listener import json_rpc_app, listening


async def test_what_an_execution_node_is() -> None:
    async with listening(json_rpc_app({"eth_chainId": lambda: "0x1"}), json_rpc_app({})) as (node, other):
        assert await is_execution_node(node, 20.0)
        assert not await is_execution_node(other, 20.0)
