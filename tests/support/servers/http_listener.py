"""HTTP servers on free ports of the loopback interface, for tests."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiohttp import web

from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc, Listener, application

Methods = Mapping[str, Callable[..., Any]]
"""JSON-RPC methods of an endpoint: functions of positional parameters."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def json_rpc_app(methods: Methods) -> web.Application:
    """Return an endpoint that answers these methods."""
    return application(JsonRpc(methods))


def app_for_every_path(handler: Handler) -> web.Application:
    """Return an application that hands every request to one handler."""
    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{path:.*}", handler)
    return app


@asynccontextmanager
async def listening(
    *apps: web.Application, port: int = 0, context: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[str, ...]]:
    """Serve the applications, a single one perhaps on a given port; their URLs, in the same order."""
    async with AsyncExitStack() as stack:
        urls = []
        for app in apps:
            listener = Listener(app, port, context=context)
            await listener.start()
            stack.push_async_callback(listener.stop)
            urls.append(listener.url)
        yield tuple(urls)
