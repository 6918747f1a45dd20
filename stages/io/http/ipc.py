"""JSON-RPC over the Unix socket that geth and reth call IPC: JSON values one behind the other [WSK7 to WSK9]."""

import asyncio
import os
import re
import stat
from collections.abc import Callable

import msgspec

from rollup_node.stages.io.http.connection import BodyTooLargeError
from rollup_node.stages.io.http.endpoint_errors import EndpointError, why_broken, why_not_connected
from rollup_node.stages.io.http.message_transport import MessageConnection, MessageTransport
from rollup_node.stages.protocol.foreign_json import MalformedJsonError, shown_body

_TO_BRACKET = re.compile(rb'(?:[^"{}\[\]]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)
"""What lies before a bracket; it ends before a string that goes on in bytes to come."""
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)

MAX_DEPTH = 1000
"""Brackets within brackets; no method's answer has more than ten."""


class JsonStream:
    """Splits bytes into JSON objects and lists, each as it was sent, of at most `max_message` bytes.

    Newlines between them are not needed. Of what is in them strings and the number of brackets count."""

    def __init__(self, max_message: int) -> None:
        self._max_message = max_message
        self._buffer = bytearray()
        self._scanned = self._depth = 0
        self._in_string = False

    def feed(self, data: bytes) -> list[bytes]:
        """Return the values that end in more bytes. Raises BodyTooLargeError, MalformedJsonError."""
        self._buffer += data
        values = self._lines(len(data))
        if values is None:
            values = self._scan() if b"\n" in data or data.endswith((b"}", b"]")) else []
        if max(len(self._buffer), *map(len, values), 0) > self._max_message:
            raise BodyTooLargeError(self._max_message)
        return values

    def _lines(self, added: int) -> list[bytes] | None:
        """Return the lines, if each is a value, as servers write them: ten times as fast as `_scan`; else None."""
        end = self._buffer.rfind(b"\n", len(self._buffer) - added) + 1
        if end == 0 or self._scanned:
            return None
        lines = [line for line in bytes(self._buffer[:end]).split(b"\n") if line]
        try:
            for line in lines:
                msgspec.json.decode(line, type=msgspec.Raw)
        except (msgspec.DecodeError, RecursionError):
            return None
        del self._buffer[:end]
        return lines

    def _scan(self) -> list[bytes]:
        """Return the values by their brackets, looking at no byte again that is in the buffer still."""
        values, begin, buffer = [], 0, self._buffer
        while True:
            match = (_IN_STRING if self._in_string else _TO_BRACKET).match(buffer, self._scanned)
            assert match is not None
            between, self._scanned = self._scanned, match.end()
            if not self._depth and buffer[between : self._scanned].strip():
                raise MalformedJsonError(f"the answer is not JSON: {shown_body(bytes(buffer[begin:]))}")
            symbol = bytes(buffer[self._scanned : self._scanned + 1])
            if symbol in (b"", b"\\"):
                break
            self._scanned += 1
            if symbol == b'"':
                self._in_string = not self._in_string
            else:
                self._depth += 1 if symbol in b"{[" else -1
                if self._depth > MAX_DEPTH:
                    raise MalformedJsonError(f"the answer is nested more than {MAX_DEPTH} deep")
                if self._depth <= 0:
                    values.append(bytes(buffer[begin : self._scanned]).strip())
                    begin, self._depth = self._scanned, 0
        if not self._depth:
            begin = self._scanned
        del buffer[:begin]
        self._scanned -= begin
        return values


class IpcConnection(MessageConnection, asyncio.Protocol):
    """An open socket; `max_message` in bytes."""

    def __init__(self, name: str, max_message: int) -> None:
        super().__init__(name, "IPC")
        self._stream = JsonStream(max_message)
        self._transport: asyncio.Transport | None = None
        self._reason: tuple[str, bool] | None = None
        self._writable = asyncio.Event()

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def send(self, body: bytes) -> None:
        while self._transport is not None and not self._writable.is_set():
            await self._writable.wait()
        if self._transport is None or self._transport.is_closing():
            raise EndpointError(self.name, "the connection failed (closed)")
        self._transport.write(body + b"\n")

    async def close(self) -> None:
        self._end("closed")
        # The socket is closed in the next round of the event loop.
        await asyncio.sleep(0)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        if self._reason is not None:
            return
        try:
            for message in self._stream.feed(data):
                self.take(message)
        except MalformedJsonError as error:
            self._end(f"malformed message, {error}")
        except BodyTooLargeError as error:
            self._end(str(error), too_much=True)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._writable.set()
        reason = "closed by the endpoint" if error is None else why_broken(error)
        self.lose(*(self._reason or (reason, False)))

    def _end(self, reason: str, too_much: bool = False) -> None:
        if self._transport is not None:
            self._reason = self._reason or (reason, too_much)
            self._transport.abort()


class IpcTransport(MessageTransport):
    """The connections to the socket at a path."""

    what = "IPC"

    def __init__(self, path: str, name: str, on_notification: Callable[[], None] | None, max_message: int) -> None:
        super().__init__(name, on_notification, max_message)
        self._path = path

    async def connect(self, max_message: int) -> MessageConnection:
        try:
            if not stat.S_ISSOCK(os.stat(self._path).st_mode):
                raise EndpointError(self.name, "cannot connect (it is no socket)")
            loop = asyncio.get_running_loop()
            return (await loop.create_unix_connection(lambda: IpcConnection(self.name, max_message), self._path))[1]
        except OSError as error:
            raise EndpointError(self.name, f"cannot connect ({why_not_connected(error)})") from None
