"""Whether an endpoint is an execution node; the other checks are in the tests of the start."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from rollup_node.node.checks.execution import (
    check_coming_forks,
    check_identity,
    engine_client,
    is_execution_node,
    offered_methods,
)
from rollup_node.node.checks.finding import Finding, FindingLevel
from rollup_node.node.setup.networks import find_network
from rollup_node.stages.engine.calls.engine_identity import EngineIdentity
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.messages.codes import Code
from tests.support.servers.checked_endpoints import SECRET
from tests.support.servers.http_listener import Methods, json_rpc_app, listening


async def test_what_an_execution_node_is() -> None:
    async with listening(json_rpc_app({"eth_chainId": lambda: "0x1"}), json_rpc_app({})) as (node, other):
        assert await is_execution_node(node, 20.0)
        assert not await is_execution_node(other, 20.0)


T = TypeVar("T")
NOW = 1_780_000_000


async def ask(methods: Methods, use: Callable[[JsonRpcClient], Awaitable[T]]) -> T:
    async with listening(json_rpc_app(methods)) as (url,):
        client = engine_client(url, SECRET, 20.0)
        try:
            return await use(client)
        finally:
            await client.close()


async def test_an_engine_that_names_no_capabilities_may_have_them() -> None:
    """A proxy in front of it may not let that method through."""
    methods = {"engine_forkchoiceUpdatedV3": lambda state, attributes: None}
    (result,), offered = await ask(methods, lambda client: offered_methods(client, "engine"))
    assert (result.level, result.code, offered) == (FindingLevel.WARNING, Code.ENGINE_CAPABILITIES, None)


@pytest.mark.parametrize("name", ["Besu", "nobody"])
async def test_an_engine_of_another_kind_contradicts_nothing(name: str) -> None:
    methods: Methods = {"web3_clientVersion": lambda: f"{name}/v1.0.0"}
    (result,), _ = await ask(methods, lambda client: check_identity(client, "engine", "geth"))
    assert (result.level, result.text) == (FindingLevel.OK, f"it is {name} 1.0.0")
    assert await ask({}, lambda client: check_identity(client, "engine", "geth")) == ([], None)


@pytest.mark.condition("C13")
async def test_an_engine_that_does_not_know_a_fork_to_come_is_a_warning_with_the_days_left() -> None:
    """[ENG42]"""
    rollup = find_network("op-sepolia").config
    now = float(rollup.fork_times["lagoon"] - 12 * 86_400)
    identity = EngineIdentity("OP-Reth", "2.3.2")

    async def doubts(methods: Methods, network: str = "op-sepolia") -> list[Finding]:
        return await ask(methods, lambda client: check_coming_forks(client, "engine", rollup, identity, network, now))

    (result,) = await doubts({})
    assert (result.level, result.code) == (FindingLevel.WARNING, Code.FORK_MISMATCH)
    assert result.text.startswith("lagoon begins at 2026-12-10T16:00:01Z, in 12d0h, and OP-Reth 2.3.2 does not have")
    assert await doubts({}, network="") == []
    (result,) = await doubts({"debug_chainConfig": lambda: {"karstTime": 5}}, network="")
    assert result.text.endswith("and the engine's configuration has no lagoonTime")
    assert await doubts({"debug_chainConfig": lambda: {"lagoonTime": rollup.fork_times["lagoon"]}}) == []
