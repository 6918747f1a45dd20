"""The JSON-RPC server: dispatch, batches, errors, tokens, and HTTP."""

import asyncio
import time
from typing import Any

import jwt
import orjson
import pytest

from rollup_node.stages.protocol.hex_encoding import from_quantity
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.serving.http_server import HttpRequest, HttpResponse
from rollup_node.tools.devnet.serving.jsonrpc_server import JsonRpc, rpc_answer

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


def answered(method: str, path: str, body: object = None, secret: bytes | None = None, **headers: str) -> HttpResponse:
    """The answer to a request by two tables of methods."""
    answer = rpc_answer(RPC, secret, {"/other": JsonRpc({"add": lambda: "other"})})
    request = HttpRequest(method, path, "", headers, orjson.dumps(body))

    async def run() -> HttpResponse:
        return await answer(request)

    return asyncio.run(run())


def test_methods_by_path() -> None:
    assert orjson.loads(answered("POST", "/", call("add", 1, 1)).body)["result"] == 2
    assert orjson.loads(answered("POST", "/other", call("add")).body)["result"] == "other"
    assert answered("POST", "/elsewhere").status == 404
    assert answered("GET", "/").status == 405


def test_a_token_is_needed_where_there_is_a_secret() -> None:
    assert answered("POST", "/", {}, SECRET).status == 401
    assert answered("POST", "/", {}, SECRET, authorization=token(b"0" * 32, iat=int(time.time()))).status == 401
    known = answered("POST", "/", call("add", 1, 1), SECRET, authorization=token(iat=int(time.time())))
    assert (known.status, orjson.loads(known.body)["result"]) == (200, 2)
