"""An HTTP/1.1 server that costs next to nothing.

Keep-alive connections on an asyncio protocol, and bodies that are ready. The answers of a connection leave in order,
each after a fixed latency."""

import asyncio
import zlib
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import NamedTuple

MAX_HEAD = 1 << 16
MAX_BODY = 32 << 20
JSON, SSZ = b"application/json", b"application/octet-stream"
_HEAD_END, _LAST_CHUNK, _CHUNKED = b"\r\n\r\n", b"0\r\n\r\n", b"\r\ntransfer-encoding: chunked"
_CONTENT_LENGTH = b"\r\ncontent-length:"
_STATUS_LINES = {status.value: b"HTTP/1.1 %d %s" % (status.value, status.phrase.encode()) for status in HTTPStatus}


class Answer(NamedTuple):
    """A response: its body in parts, and how they are encoded."""

    parts: list[bytes]
    status: int = 200
    media: bytes = JSON
    encoding: bytes = b""


Handler = Callable[[bytes, bytes, bytes], Answer]
"""Answers a request by its target, its head in small letters, and its body."""


class HttpConnection(asyncio.Protocol):
    """One connection; `latency` in seconds. Requests with a chunked body, or beyond the limits, end it."""

    def __init__(self, handler: Handler, latency: float) -> None:
        self._handler, self._latency = handler, latency
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Answer that are still due are dropped."""
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Answer every complete request."""
        received = self._received + data if self._received else data
        while received:
            head_end = received.find(b"\r\n\r\n")
            if head_end < 0:
                if len(received) > MAX_HEAD:
                    return self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
                break
            head = received[:head_end].lower()
            size = _body_size(head)
            if size is None:
                return self._refuse(HTTPStatus.LENGTH_REQUIRED)
            if size > MAX_BODY:
                return self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            end = head_end + 4 + size
            if len(received) < end:
                break
            target = received[: received.find(b"\r\n")].split(b" ")[1:2]
            if not target:
                return self._refuse(HTTPStatus.BAD_REQUEST)
            answer = self._handler(target[0], head, received[head_end + 4 : end])
            received = received[end:]
            self._answer(answer, b"\r\nconnection: close" in head)
        self._received = received

    def _answer(self, answer: Answer, is_last: bool) -> None:
        size = sum(map(len, answer.parts))
        head = b"%s\r\nContent-Type: %s\r\nContent-Length: %d\r\n" % (_STATUS_LINES[answer.status], answer.media, size)
        if answer.encoding:
            head += b"Content-Encoding: %s\r\n" % answer.encoding
        parts = [head + b"\r\n", *answer.parts]
        if self._latency:
            asyncio.get_running_loop().call_later(self._latency, self._write, parts, is_last)
        else:
            self._write(parts, is_last)

    def _write(self, parts: list[bytes], is_last: bool) -> None:
        if self._transport is not None:
            self._transport.writelines(parts)
            if is_last:
                self._transport.close()

    def _refuse(self, status: HTTPStatus) -> None:
        self._received = b""
        self._write([_STATUS_LINES[status.value], b"\r\nContent-Length: 0\r\n\r\n"], is_last=True)


def _body_size(head: bytes) -> int | None:
    """Return the size of the body that a head in small letters announces.

    None if it cannot be known before the body."""
    if b"\r\ntransfer-encoding:" in head:
        return None
    at = head.find(_CONTENT_LENGTH)
    if at < 0:
        return 0
    text = head[at + len(_CONTENT_LENGTH) :].split(b"\r\n", 1)[0].strip()
    return int(text) if text.isdigit() else None


def message_end(received: bytes) -> int | None:
    """Return the end of the first message of HTTP in what was received, None when it is not complete.

    A body in chunks ends with what was received: clients of an engine ask one thing at a time."""
    head_end = received.find(_HEAD_END)
    if head_end < 0:
        return None
    head = received[:head_end].lower()
    if _CHUNKED in head:
        return len(received) if received.endswith(_LAST_CHUNK) else None
    end = head_end + 4 + (_body_size(head) or 0)
    return end if len(received) >= end else None


def message_body(message: bytes) -> bytes:
    """Return the body of a complete message, without what divides it into chunks. Raises ValueError for odd chunks."""
    head, _, rest = message.partition(_HEAD_END)
    if _CHUNKED not in head.lower():
        return rest
    chunks: list[bytes] = []
    while rest != _LAST_CHUNK:
        text, _, rest = rest.partition(b"\r\n")
        size = int(text, 16)
        chunks.append(rest[:size])
        rest = rest[size + 2 :]
    return b"".join(chunks)


LEVEL = 5
"""Of compression: near that of geth (6) and of proxies before it (1 to 6)."""
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_MAX_STORED = 0xFFFF


class Prepared(NamedTuple):
    """A body, and the same as deflated blocks that end at a byte and may stand anywhere in a stream."""

    plain: bytes
    deflated: bytes


def deflated(body: bytes) -> bytes:
    """Return a body as deflated blocks, of which none is the last of a stream."""
    compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(body) + compressor.flush(zlib.Z_FULL_FLUSH)


def gzipped(parts: Sequence[bytes | Prepared]) -> list[bytes]:
    """Return the parts one after another as one gzip stream, of which those that are not prepared are stored."""
    stream, crc, size = [_HEADER], 0, 0
    for part in parts:
        plain = part.plain if isinstance(part, Prepared) else part
        crc, size = zlib.crc32(plain, crc), size + len(plain)
        stream += [part.deflated] if isinstance(part, Prepared) else _stored(part)
    stream.append(b"\x01\x00\x00\xff\xff")
    stream.append(crc.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little"))
    return stream


def _stored(data: bytes) -> list[bytes]:
    blocks = []
    for start in range(0, len(data), _MAX_STORED):
        block = data[start : start + _MAX_STORED]
        length = len(block)
        blocks += [b"\x00" + length.to_bytes(2, "little") + (length ^ 0xFFFF).to_bytes(2, "little"), block]
    return blocks
