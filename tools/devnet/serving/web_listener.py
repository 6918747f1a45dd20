"""An aiohttp application on a port, and one that serves JSON-RPC beside routes of its own."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from rollup_node.stages.io.accepting import stop_accepting
from rollup_node.tools.devnet.serving.http_server import MAX_BODY, Answer, HttpRequest
from rollup_node.tools.devnet.serving.jsonrpc_server import JsonRpc, rpc_answer

STOP_SECONDS = 0.1
"""How long a server waits for what it answers when it stops."""


def application(
    rpc: JsonRpc, jwt_secret: bytes | None = None, others: Mapping[str, JsonRpc] | None = None
) -> web.Application:
    """A web application with the answers of `rpc_answer`. Routes may be added before it starts."""
    answer = rpc_answer(rpc, jwt_secret, others)
    app = web.Application(client_max_size=MAX_BODY)
    for path in ("/", *(others or ())):
        app.router.add_post(path, web_handler(answer))
    return app


def web_handler(answer: Answer) -> Callable[[web.Request], Awaitable[web.Response]]:
    """The handler of a route whose requests are answered by the function."""

    async def handle(request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await request.read()
        found = await answer(HttpRequest(request.method, request.path, request.query_string, headers, body))
        return web.Response(body=found.body, status=found.status, content_type=found.media)

    return handle


class Listener:
    """An application that listens on a port. For port 0 a free one is chosen, and `url` and `port` have it once
    started."""

    def __init__(
        self, app: web.Application, port: int, host: str = "127.0.0.1", context: ssl.SSLContext | None = None
    ) -> None:
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_SECONDS)
        self._context = context
        self.host = host
        self.port = port
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The HTTP URL."""
        return f"http{'s' if self._context else ''}://{self.host}:{self.port}"

    async def start(self) -> None:
        """Binds the port. Raises OSError where it is in use."""
        await self._runner.setup()
        assert self._runner.server is not None
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._runner.server, self.host, self.port, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Closes the port and all connections."""
        if self._server is not None:
            await stop_accepting(self._server)
        await self._runner.cleanup()
