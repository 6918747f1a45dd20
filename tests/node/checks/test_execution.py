"""Checks of an execution node that `rollup-node check` alone makes; the others are in the tests of the start."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from rollup_node.node.checks.execution import (
    Block,
    check_finality,
    check_head,
    check_l1_methods,
    is_execution_node,
    read_block,
)
from rollup_node.node.checks.finding import FindingLevel
from rollup_node.stages.io.http.jsonrpc import EndpointError, JsonRpcClient, RpcFailure
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.hex_encoding import HexError
from rollup_node.stages.protocol.jsonrpc_codes import SERVER_ERROR
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from tests.support.servers.http_listener import Methods, json_rpc_app, listening

T = TypeVar("T")
HASH = "0x" + "11" * 32
BLOCK = {"number": "0x10", "hash": HASH, "timestamp": "0x20"}


def ask(methods: Methods, use: Callable[[JsonRpcClient], Awaitable[T]]) -> T:
    async def run() -> T:
        async with listening(json_rpc_app(methods)) as (url,):
            client = JsonRpcClient(url, timeout=20.0)
            try:
                return await use(client)
            finally:
                await client.close()

    return asyncio.run(run())


def failing(message: str) -> Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise JsonRpcError(SERVER_ERROR, message)

    return fail


def test_blocks_are_read() -> None:
    block = ask({"eth_getBlockByNumber": lambda *_: BLOCK}, lambda client: read_block(client, "latest"))
    assert block is not None and (block.height, block.time) == (16, 32)
    for missing in (lambda *_: None, failing("safe block not found")):
        assert ask({"eth_getBlockByNumber": missing}, lambda client: read_block(client, "safe")) is None


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda *_: {**BLOCK, "number": "ten"}, HexError),
        (lambda *_: {**BLOCK, "hash": "0x"}, HexError),
        (lambda *_: {}, EndpointError),
        (failing("slow down"), RpcFailure),
    ],
)
def test_what_is_no_block(answer: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        ask({"eth_getBlockByNumber": answer}, lambda client: read_block(client, "latest"))


def test_an_old_head_is_a_warning() -> None:
    now = int(time.time())
    assert check_head("L1", Block("0x1", HASH, hex(now - 20))).level is FindingLevel.OK
    old = check_head("L1", Block("0x1", HASH, hex(now - 1200)))
    assert old.code is Code.L1_HEAD and "20m0s old" in old.text


@pytest.mark.sign("FINALITY-STALE", check=True)
@pytest.mark.parametrize(
    ("answer", "level", "text"),
    [
        (lambda *_: {**BLOCK, "timestamp": hex(10_000 - 900)}, FindingLevel.OK, "finalized block 16, 15m0s older"),
        (
            lambda *_: {**BLOCK, "timestamp": hex(10_000 - 7200)},
            FindingLevel.WARNING,
            "16, is 2h0m older than the latest, 1",
        ),
        (lambda *_: None, FindingLevel.NOT_CHECKED, "it has none"),
        (failing("unknown label"), FindingLevel.NOT_CHECKED, "unknown label"),
    ],
)
def test_finality_that_stands_still_is_a_warning(answer: Any, level: FindingLevel, text: str) -> None:
    head = Block("0x1", HASH, hex(10_000))
    found = ask({"eth_getBlockByNumber": answer}, lambda client: check_finality(client, "L1", head))
    assert found.level is level and text in found.text
    assert found.code is (Code.FINALITY_STALE if level is FindingLevel.WARNING else None)


def test_methods_that_are_missing() -> None:
    methods: Methods = {"eth_getBlockReceipts": lambda name: [] if name == HASH else None}
    head = Block("0x1", HASH, "0x1")
    receipts, proof = ask(methods, lambda client: check_l1_methods(client, "L1", head, bytes(20)))
    assert receipts.level is FindingLevel.OK
    assert proof.code is Code.L1_METHODS and proof.text.startswith("eth_getProof does not work: error -32601")


def test_what_an_execution_node_is() -> None:
    async def run() -> tuple[bool, bool]:
        async with listening(json_rpc_app({"eth_chainId": lambda: "0x1"}), json_rpc_app({})) as (node, other):
            return await is_execution_node(node, 20.0), await is_execution_node(other, 20.0)

    assert asyncio.run(run()) == (True, False)
