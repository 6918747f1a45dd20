"""A TCP relay in front of an endpoint that a test can make unreachable."""

import asyncio
import contextlib
import socket
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Coroutine
from typing import Any, Self
from urllib.parse import urlsplit

from tests.support.servers.threads import end_connections

LOOPBACK = "127.0.0.1"


class TcpRelay:
    """Relays TCP connections to the port of a URL on the loopback interface.

    A cut closes open connections and refuses new ones; its own port stays bound, so that no other program gets it."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._reservation = socket.socket()
        self._reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reservation.bind((LOOPBACK, 0))
        self.name = f"{LOOPBACK}:{self._reservation.getsockname()[1]}"
        self.url = f"http://{self.name}"
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay")
        self._thread.start()
        self.restore()

    def cut(self) -> None:
        """Close all connections and refuses new ones."""
        self._run(self._cut())

    def restore(self) -> None:
        """Accept connections again."""
        self._run(self._listen())

    def redirect(self, target: str) -> None:
        """Close all connections; new ones lead to the port of another URL."""
        self.cut()
        self._target = target
        self.restore()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()
        self._reservation.close()

    def _run(self, step: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(step, self._loop).result(30)

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._relay, *self._reservation.getsockname())

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await end_connections()

    async def _relay(self, reader: StreamReader, near: StreamWriter) -> None:
        try:
            far_reader, far = await asyncio.open_connection(LOOPBACK, urlsplit(self._target).port)
        except OSError:
            near.close()
            return
        await asyncio.gather(pass_on(reader, far), pass_on(far_reader, near))


async def pass_on(reader: StreamReader, writer: StreamWriter) -> None:
    """Write what is read until one of both ends, then close the writer's connection."""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
