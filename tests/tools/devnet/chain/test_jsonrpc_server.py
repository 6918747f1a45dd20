"""The JSON-RPC server: dispatch, batches, errors, tokens, and HTTP."""

import asyncio
from typing import Any

import orjson
import pytest

from rollup_node.stages.protocol.hex_encoding import from_quantity
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc


def refuse() -> None:
    raise JsonRpcError(-38001, "unknown payload", {"err": "gone"})


async def later(value: int) -> int:
    await asyncio.sleep(0)
    return value


RPC = JsonRpc(
    {"add": lambda a, b=1: a + b, "later": later, "refuse": refuse, "parse": from_quantity, "nothing": lambda: None}
)


async def ask(body: object) -> Any:
    answer = await RPC.respond(body if isinstance(body, bytes) else orjson.dumps(body))
    return orjson.loads(answer) if answer else None


def call(method: object, *parameters: object, identity: object = 1) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": list(parameters)}


async def test_results_and_batches() -> None:
    assert await ask(call("add", 2, 3)) == {"jsonrpc": "2.0", "id": 1, "result": 5}
    assert await ask([call("later", 7), call("add", 1, identity="x")]) == [
        {"jsonrpc": "2.0", "id": 1, "result": 7},
        {"jsonrpc": "2.0", "id": "x", "result": 2},
    ]
    assert await ask({"jsonrpc": "2.0", "method": "add", "params": [1]}) is None
    assert await ask(call("nothing")) == {"jsonrpc": "2.0", "id": 1, "result": None}, "no member error [RPC97]"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        ([], -32600),
        (3, -32600),
        (call(5), -32600),
        (call("absent"), -32601),
        (call("add"), -32602),
        (call("add", 1, 2, 3), -32602),
        (call("parse", "zz"), -32602),
        (call("refuse"), -38001),
        (call("add", 1, "x"), -32603),
    ],
)
async def test_errors(body: object, code: int) -> None:
    assert (await ask(body))["error"]["code"] == code


async def test_a_batch_that_is_too_large_is_one_error() -> None:
    """[RPC7]"""
    (response,) = await ask([[]] * 1001)
    assert response["error"]["code"] == -32600
