"""The JSON-RPC server: dispatch, batches, errors, tokens, and HTTP."""

import asyncio
import time
from typing import Any

import aiohttp
import jwt
import orjson
import pytest
from aiohttp import web

from rollup_node.stages.protocol.hex_encoding import from_quantity
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc, application
from tests.support.servers.http_listener import listening

SECRET = bytes(range(32))


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


async def test_error_data_is_passed_on() -> None:
    error = {"code": -38001, "message": "unknown payload", "data": {"err": "gone"}}
    assert (await ask(call("refuse")))["error"] == error


def token(secret: bytes = SECRET, algorithm: str = "HS256", **claims: object) -> str:
    return "Bearer " + jwt.encode(claims, secret, algorithm=algorithm)


async def own_route(request: web.Request) -> web.Response:
    return web.Response(text="of its own")


async def asked(
    method: str, path: str, body: object = None, secret: bytes | None = None, **headers: str
) -> tuple[int, bytes]:
    """Status and body of a response to a request, over a socket, by two tables of methods and a route of its own."""
    app = application(RPC, secret, {"/other": JsonRpc({"add": lambda: "other"})})
    app.router.add_get("/own", own_route)
    async with (
        listening(app) as (url,),
        aiohttp.ClientSession(url) as session,
        session.request(method, path, json=body, headers=headers) as response,
    ):
        return response.status, await response.read()


async def test_methods_by_path() -> None:
    assert orjson.loads((await asked("POST", "/", call("add", 1, 1)))[1])["result"] == 2
    assert orjson.loads((await asked("POST", "/other", call("add")))[1])["result"] == "other"
    assert [(await asked(*request))[0] for request in (("POST", "/elsewhere"), ("GET", "/"))] == [404, 405]
    assert await asked("GET", "/own") == (200, b"of its own")


async def test_a_token_is_needed_where_there_is_a_secret() -> None:
    now = int(time.time())
    for authorization in ({}, {"Authorization": token(b"0" * 32, iat=now)}):
        assert (await asked("POST", "/", {}, SECRET, **authorization))[0] == 401
    status, body = await asked("POST", "/", call("add", 1, 1), SECRET, Authorization=token(iat=now))
    assert (status, orjson.loads(body)["result"]) == (200, 2)
