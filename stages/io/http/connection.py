"""One HTTP/1.1 connection, its responses bounded in bytes and time, and their decompression [LHD2, LHD29].

It sends one request at a time, with or without TLS; llhttp parses."""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import httptools

if TYPE_CHECKING:
    from isal import isal_zlib

MAX_FRAMING = 256 << 10
"""Bytes of a response that are no body: status line, headers, interim responses, chunk sizes, trailers."""

FRAMING_A_BYTE = 16
"""Bytes of chunk sizes that each byte of the body allows beyond MAX_FRAMING; chunks of one byte need 5."""

IDLE_SECONDS = 30.0
JOINED = 64 << 10
"""A request whose body has at most so many bytes is copied behind its head, to be sent by one system call."""

SWITCHING_PROTOCOLS = 101
AFTER_THE_END = "bytes after the end of the answer"

_ODDITIES = ("Duplicate Content-Length", "Unexpected whitespace after header value")
"""Errors of llhttp for which `mended` has a remedy."""
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_LINE_END = re.compile(rb"\r?\n")
_FOLD = re.compile(rb"\r?\n[ \t]+")

CHUNK = 1 << 20
PIECE = 256 << 10
MAX_MEMBERS = 10_000
"""Members of a gzip body (RFC 1952): a compressor that works in parallel makes one of each 64 KiB or more."""

_GZIP_OR_ZLIB = 15 | 32
"""zlib's window bits; 32 detects gzip or zlib by the header."""
_GZIP_MAGIC = b"\x1f\x8b"
_DECODED = frozenset({"gzip", "x-gzip", "deflate"})
_NOT_DECODED = frozenset({"br", "zstd", "compress", "x-compress", "dcb", "dcz", "pack200-gzip", "exi"})


class HttpError(Exception):
    """The connection broke, or what came over it is no HTTP response."""


class ServerDisconnectedError(HttpError):
    """The server closed the connection before the head of its response."""


class DeadlineError(Exception):
    """The response was not complete in time."""


class Response(NamedTuple):
    """A response; the body is not decompressed, and empty if it was taken. The names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytearray


class HttpConnection(asyncio.Protocol):
    """A keep-alive connection, closed after an incomplete response or when idle for IDLE_SECONDS."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = self._new_parser()
        self._answer: asyncio.Future[Response] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._failure: Exception | None = None
        self._begin(0)

    @property
    def is_open(self) -> bool:
        """Whether another request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(
        self, head: bytes, body: bytes, max_answer: int, deadline: float, take: Callable[[bytes], None] | None = None
    ) -> Response:
        """Return the response to a request. Raises HttpError, BodyTooLargeError, DeadlineError and OSError.

        `deadline` is by the clock of the loop. A compressed body may be a little longer than `max_answer` bytes. With
        `take`, the body of a success is handed over piece by piece as it arrives."""
        assert self._transport is not None
        self._begin(max_answer, take)
        answer = self._answer = self._loop.create_future()
        self._wake_at(deadline)
        if len(body) <= JOINED:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        try:
            response: Response = await answer
            return response
        finally:
            self._answer = None
            # An idle connection holds no answer.
            self._body = bytearray()
            if not self._complete:
                self.abort()

    def close(self) -> None:
        """Close the connection; a request in flight fails."""
        self._fail(HttpError("closed"))

    def abort(self) -> None:
        """Close the connection without sending what is still to be sent."""
        if self._transport is not None:
            self._transport.abort()

    # --- events of the connection --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.abort()
            return
        self._framing += len(data)
        if self._is_odd and not self._has_head:
            self._mend(data)
        else:
            self._feed(data)
        if self._framing > MAX_FRAMING + FRAMING_A_BYTE * self._size:
            self._refuse("too many bytes of headers")
        if self._failure is not None:
            self._fail(self._failure)
        elif self._complete:
            self._finish()

    def eof_received(self) -> None:
        # The server is not sent the rest of a request.
        self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if error is not None:
            self._fail(error)
        elif not self._has_head:
            self._fail(ServerDisconnectedError("closed by the server before its answer"))
        elif self._ends_with_connection:
            self._complete = True
            self._finish()
        else:
            self._fail(HttpError("closed by the server within its answer"))
        self._transport = None
        # The parser and its callbacks refer to each other.
        del self._parser
        self._head.clear()

    # --- events of the parser, which must not raise ----------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._complete:
            self._refuse(AFTER_THE_END)

    def on_header(self, name: bytes, value: bytes) -> None:
        # A trailer means nothing.
        if not self._has_head:
            self._headers.setdefault(name.lower(), value)

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        if self._is_interim():
            return
        self._has_head = True
        self._head.clear()
        length = self._headers.get(b"content-length")
        coding = self._headers.get(b"transfer-encoding")
        self._ends_with_connection = length is None if coding is None else not coding.lower().endswith(b"chunked")
        encoding = self._headers.get(b"content-encoding")
        if encoding is not None and is_compressed(encoding.decode("latin-1").strip()):
            # Incompressible data become a little longer.
            self._most += self._most // 256 + 1024
        # Of 64 bits, after any number of zeros.
        if length is not None and length.isdigit() and int(length[-20:]) > self._most:
            self._failure = BodyTooLargeError(self._limit)

    def on_body(self, data: bytes) -> None:
        self._framing -= len(data)
        self._size += len(data)
        if self._size > self._most:
            if self._failure is None:
                self._failure = BodyTooLargeError(self._limit)
        elif self._take is None:
            self._body += data
        elif is_success(self._status):
            self._take(data)

    def on_message_complete(self) -> None:
        if self._is_interim():
            self._headers.clear()
        else:
            self._complete = True
            # The parser forgets it when this function returns.
            self._keeps_alive = self._status != SWITCHING_PROTOCOLS and self._parser.should_keep_alive()

    # --- one exchange ------------------------------------------------------------------------------------------------

    def _begin(self, max_answer: int, take: Callable[[bytes], None] | None = None) -> None:
        self._limit = self._most = max_answer
        self._take = take
        self._failure = None
        self._framing = self._status = self._size = 0
        self._head: list[bytes] = []
        self._odd_head = bytearray()
        self._is_odd = False
        self._headers: dict[bytes, bytes] = {}
        self._has_head = self._complete = self._keeps_alive = self._ends_with_connection = False
        self._body = bytearray()

    def _new_parser(self) -> httptools.HttpResponseParser:
        parser = httptools.HttpResponseParser(self)
        # What servers do and no attack needs; aiohttp allows it as well.
        parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True)
        return parser

    def _feed(self, data: bytes) -> None:
        if not self._has_head:
            self._head.append(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserError as error:
            if str(error) in _ODDITIES and not self._has_head and not self._is_odd:
                self._is_odd = True
                self._mend(b"".join(self._head))
            else:
                self._refuse(AFTER_THE_END if self._complete else f"not HTTP: {error}")

    def _mend(self, data: bytes) -> None:
        """Take bytes of a head that llhttp refuses; once it is complete, parse it again, mended."""
        self._odd_head += data
        result = _END_OF_HEAD.search(self._odd_head, max(0, len(self._odd_head) - len(data) - 3))
        if result is not None:
            head, rest = self._odd_head[: result.start()], self._odd_head[result.start() :]
            self._odd_head.clear()
            self._headers.clear()
            self._parser = self._new_parser()
            self._feed(mended(bytes(head)) + rest)

    def _is_interim(self) -> bool:
        return self._status < 200 and self._status != SWITCHING_PROTOCOLS

    def _refuse(self, text: str) -> None:
        if self._failure is None:
            self._failure = HttpError(text)

    def _finish(self) -> None:
        """Give out the complete answer; keep the connection if both sides want it."""
        answer, transport = self._answer, self._transport
        assert transport is not None
        if answer is None or answer.done():
            return
        headers = {name.decode("latin-1"): value.decode("latin-1").strip() for name, value in self._headers.items()}
        answer.set_result(Response(self._status, headers, self._body))
        # An answer that comes before the whole request is that of a server that does not read it.
        if transport.is_closing() or not self._keeps_alive or transport.get_write_buffer_size():
            transport.abort()
        else:
            self._wake_at(self._loop.time() + IDLE_SECONDS)

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            # The frames in the error's traceback would keep it in memory.
            self._body.clear()
            self._complete = False
            self._answer.set_exception(error)
        self.abort()

    def _wake_at(self, deadline: float) -> None:
        """Close the connection at a time; a timer that is too early is kept, as each is as dear as the parser."""
        self._deadline = deadline
        if self._timer is not None:
            if self._timer.when() <= deadline:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._loop.time() < self._deadline:
            self._wake_at(self._deadline)
        else:
            self._fail(DeadlineError())


def is_success(status: int) -> bool:
    return 200 <= status < 300


def mended(head: bytes) -> bytes:
    """Return a head whose folded lines are joined and whose Content-Length is not repeated [LHD29]."""
    lines, lengths = [], set()
    for line in _LINE_END.split(_FOLD.sub(b" ", head)):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            if value.strip() in lengths:
                continue
            lengths.add(value.strip())
        lines.append(line)
    return b"\r\n".join(lines)


class BodyTooLargeError(Exception):
    """The body is longer than `limit` bytes, after decompression."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the answer is longer than {limit} bytes")
        self.limit = limit


class BodyEncodingError(ValueError):
    """The body is compressed by another method than gzip or deflate, or damaged."""


def is_compressed(encoding: str) -> bool:
    """Return whether a Content-Encoding compresses: some servers name a character set there, or nothing known."""
    names = [name.strip() for name in encoding.lower().split(",")]
    return any(name in _DECODED or name in _NOT_DECODED for name in names)


async def decompressed(body: bytearray, encoding: str, limit: int) -> bytes:
    """Return a whole body decompressed to `limit` bytes, consuming it. Raises BodyTooLargeError, BodyEncodingError."""
    if not encoding or not is_compressed(encoding):
        if len(body) > limit:
            raise BodyTooLargeError(limit)
        return bytes(body)
    if encoding.lower().strip() not in _DECODED:
        raise BodyEncodingError(f"the answer has the content encoding {encoding[:40]!r}")
    # One buffer that grows: thousands of small parts would leave holes in the heap.
    inflated = bytearray()
    members, rest = 0, _next_piece(body)
    while rest and (not members or rest.startswith(_GZIP_MAGIC)):
        members += 1
        if members > MAX_MEMBERS:
            raise BodyEncodingError(f"the compressed answer has more than {MAX_MEMBERS} members")
        rest = await _inflate_member(rest, body, inflated, limit)
        while body and len(rest) < len(_GZIP_MAGIC):
            rest += _next_piece(body)
        if rest:
            await asyncio.sleep(0)
    return bytes(inflated)


def _next_piece(body: bytearray) -> bytes:
    """Remove the first bytes of a body. In pieces, as zlib copies all that it has not yet read."""
    piece = bytes(body[:PIECE])
    del body[:PIECE]
    return piece


async def _inflate_member(piece: bytes, body: bytearray, inflated: bytearray, limit: int) -> bytes:
    """Decompress the member that begins with `piece` and goes on in `body`; return what follows in its last piece."""
    # Processes whose endpoints do not compress never need it.
    from isal import isal_zlib

    inflater = isal_zlib.decompressobj(_GZIP_OR_ZLIB)
    while piece and not inflater.eof:
        for part in _inflated(inflater, piece, limit):
            if len(inflated) + len(part) > limit:
                # The frames in the error's traceback would keep them in memory.
                inflated.clear()
                body.clear()
                raise BodyTooLargeError(limit)
            inflated += part
            # One piece may decompress to a thousand times its size.
            if inflater.unconsumed_tail:
                await asyncio.sleep(0)
        piece = b"" if inflater.eof else _next_piece(body)
    if not inflater.eof:
        raise BodyEncodingError("the compressed answer is incomplete")
    return bytes(inflater.unused_data)


def _inflated(inflater: "isal_zlib.Decompress", data: bytes, limit: int) -> Iterator[bytes]:
    """Yield the decompressed data in chunks of at most CHUNK bytes."""
    from isal.igzip_lib import IsalError

    chunk = min(CHUNK, limit + 1)
    try:
        while data and not inflater.eof:
            yield inflater.decompress(data, chunk)
            data = inflater.unconsumed_tail
    except IsalError:  # type: ignore[misc]  # its stub declares an instance
        raise BodyEncodingError("the compressed answer is damaged") from None
