"""The JSON-RPC server: dispatch, batches, errors, tokens, and HTTP."""

import asyncio
import time
from typing import Any

import aiohttp
import jwt
import orjson
import pytest

from rollup_node.stages.protocol.hex_encoding import from_quantity
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.serving.jsonrpc_server import JsonRpc, Listener, application

SECRET = bytes(range(32))


def refuse() -> None:
    raise JsonRpcError(-38001, "unknown payload", {"err": "gone"})


async def later(value: int) -> int:
    await asyncio.sleep(0)
    return value


RPC = JsonRpc({"add": lambda a, b=1: a + b, "later": later, "refuse": refuse, "parse": from_quantity})


def ask(body: object) -> Any:
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    answer = asyncio.run(RPC.respond(raw))
    return orjson.loads(answer) if answer else None


def call(method: object, *parameters: object, identity: object = 1) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": list(parameters)}


def test_results_and_batches() -> None:
    assert ask(call("add", 2, 3)) == {"jsonrpc": "2.0", "id": 1, "result": 5}
    assert ask([call("later", 7), call("add", 1, identity="x")]) == [
        {"jsonrpc": "2.0", "id": 1, "result": 7},
        {"jsonrpc": "2.0", "id": "x", "result": 2},
    ]
    assert ask({"jsonrpc": "2.0", "method": "add", "params": [1]}) is None


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
def test_errors(body: object, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(body)["error"]["code"] == code


def test_a_batch_that_is_too_large_is_one_error() -> None:
    """[RPC7]"""
    (response,) = ask([[]] * 1001)
    assert response["error"]["code"] == -32600


def test_error_data_is_passed_on() -> None:
    assert ask(call("refuse"))["error"] == {"code": -38001, "message": "unknown payload", "data": {"err": "gone"}}


def token(secret: bytes = SECRET, algorithm: str = "HS256", **claims: object) -> str:
    return "Bearer " + jwt.encode(claims, secret, algorithm=algorithm)


def test_over_a_socket() -> None:
    async def scenario() -> None:
        listener = Listener(application(RPC, SECRET), port=0)
        await listener.start()
        try:
            async with aiohttp.ClientSession() as session:
                async with session.post(listener.url, data=b"{}") as refused:
                    assert refused.status == 401
                headers = {"Authorization": token(iat=int(time.time()))}
                async with session.post(listener.url, json=call("add", 1, 1), headers=headers) as answer:
                    assert (await answer.json())["result"] == 2
        finally:
            await listener.stop()

    asyncio.run(scenario())
