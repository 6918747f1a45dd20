"""Servers that run in a thread, for tests that are no coroutines."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar

from aiohttp import web

from tests.support.servers.http_listener import app_for_every_path, listening

T = TypeVar("T")
MAX_SECONDS = 50.0


@contextmanager
def in_thread(manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Hold an asynchronous context manager open in the event loop of a thread, and yield its value."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)

    def wait_for(step: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(step, loop).result(MAX_SECONDS)

    thread.start()
    try:
        value: T = wait_for(_entered(manager))
        try:
            yield value
        finally:
            wait_for(_left(manager))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _entered(manager: AbstractAsyncContextManager[T]) -> T:
    return await manager.__aenter__()


async def _left(manager: AbstractAsyncContextManager[Any]) -> None:
    await manager.__aexit__(None, None, None)
    await end_connections()


async def end_connections() -> None:
    """End all other tasks of the event loop, and close all its connections."""
    # A connection that is just being accepted would be collected unclosed, in another test.
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    # So would one with bytes for a peer that no longer reads. The loop has no public list of them.
    for transport in list(vars(asyncio.get_running_loop())["_transports"].values()):
        transport.abort()
    await asyncio.sleep(0)


@contextmanager
def json_rpc_server(method: str, answer: Mapping[str, Any], is_node: bool = True) -> Iterator[str]:
    """Yield the URL of a server that answers calls of one method: with this `result`, or this `error`.

    A node also has optimism_version, another program answers that with the same."""

    async def respond(request: web.Request) -> web.Response:
        call = await request.json()
        if is_node and call["method"] == "optimism_version":
            return web.json_response({"jsonrpc": "2.0", "id": call["id"], "result": "v1"})
        assert call["method"] == method or not is_node
        return web.json_response({"jsonrpc": "2.0", "id": call["id"], **answer})

    with in_thread(listening(app_for_every_path(respond))) as (url,):
        yield url
