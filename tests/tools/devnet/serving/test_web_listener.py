"""JSON-RPC on an aiohttp application, beside routes of its own."""

import asyncio
import time

import aiohttp
import jwt
from aiohttp import web

from rollup_node.tools.devnet.serving.jsonrpc_server import JsonRpc
from rollup_node.tools.devnet.serving.web_listener import Listener, application

SECRET = bytes(range(32))


def test_over_a_socket() -> None:
    async def route(request: web.Request) -> web.Response:
        return web.Response(text="of its own")

    async def scenario() -> None:
        app = application(JsonRpc({"add": lambda a, b: a + b}), SECRET, {"/other": JsonRpc({"add": lambda: "other"})})
        app.router.add_get("/own", route)
        listener = Listener(app, port=0)
        await listener.start()
        try:
            async with aiohttp.ClientSession() as session:
                async with session.post(listener.url, data=b"{}") as refused:
                    assert refused.status == 401
                headers = {"Authorization": "Bearer " + jwt.encode({"iat": int(time.time())}, SECRET, "HS256")}
                call = {"jsonrpc": "2.0", "id": 1, "method": "add", "params": [1, 1]}
                async with session.post(listener.url, json=call, headers=headers) as answer:
                    assert (await answer.json())["result"] == 2
                async with session.post(listener.url + "/other", json=call | {"params": []}, headers=headers) as answer:
                    assert (await answer.json())["result"] == "other"
                async with session.get(listener.url + "/own") as answer:
                    assert await answer.text() == "of its own"
        finally:
            await listener.stop()

    asyncio.run(scenario())
