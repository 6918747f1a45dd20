"""Comparison of output roots over all nodes."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from rollup_node.stages.io.http.jsonrpc import JsonRpcClient, RpcFailure
from rollup_node.stages.protocol.jsonrpc_codes import SERVER_ERROR
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet import compare
from rollup_node.tools.devnet.compare import Comparison, compare_output_roots
from tests.support.servers.http_listener import json_rpc_app, listening

Output = Callable[[str], dict[str, str]]


def root(number: str) -> dict[str, str]:
    return {"outputRoot": f"0x{int(number, 16):064x}"}


def compared(last: int, **nodes: Output) -> Comparison:
    """The comparison of nodes that answer optimism_outputAtBlock by these functions."""

    async def run() -> Comparison:
        apps = (json_rpc_app({"optimism_outputAtBlock": output}) for output in nodes.values())
        async with listening(*apps) as urls, AsyncExitStack() as stack:
            clients = {name: JsonRpcClient(url) for name, url in zip(nodes, urls, strict=True)}
            for client in clients.values():
                stack.push_async_callback(client.close)
            return await compare_output_roots(clients, last)

    return asyncio.run(run())


def test_equal_roots() -> None:
    assert compared(20, one=root, other=root) == Comparison(21, None)
    assert compared(0, one=root).equal


def test_the_first_difference_is_reported() -> None:
    def differs(number: str) -> dict[str, str]:
        return root(hex(int(number, 16) + (int(number, 16) >= 11)))

    comparison = compared(20, one=root, other=root, third=differs)
    assert (comparison, comparison.equal) == (Comparison(12, 11), False)


def test_failed_requests_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "RETRY_SECONDS", 0.0)
    failures = iter([True, True])

    def flaky(number: str) -> dict[str, str]:
        if next(failures, False):
            raise JsonRpcError(SERVER_ERROR, "not ready")
        return root(number)

    assert compared(3, one=root, other=flaky).equal


def test_a_node_that_keeps_failing_ends_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(compare, "ATTEMPTS", 3)

    def fails(number: str) -> dict[str, str]:
        raise JsonRpcError(SERVER_ERROR, "not ready")

    with pytest.raises(RpcFailure, match="not ready"):
        compared(1, one=root, other=fails)
