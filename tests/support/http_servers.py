"""JSON-RPC servers with fixed responses on loopback ports, for tests of clients."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from rollup_node.tools.devnet.serving.jsonrpc_server import JsonRpc, Listener, Method, application


@asynccontextmanager
async def serving(methods: Mapping[str, Method]) -> AsyncIterator[str]:
    """The URL of a server with these methods, while the context lasts."""
    listener = Listener(application(JsonRpc(methods)), 0)
    await listener.start()
    try:
        yield listener.url
    finally:
        await listener.stop()
