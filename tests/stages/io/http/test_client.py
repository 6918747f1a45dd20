"""The HTTP client over TCP and TLS: connections are kept, closed and replaced, with real servers on loopback.

test_tls.py has the handshake and what goes wrong in it."""

import asyncio
import base64
import gzip
import re
import socket
import struct
from asyncio import StreamReader, StreamWriter
from typing import Any

import aiohappyeyeballs
import pytest

from rollup_node.stages.io.http import connection
from rollup_node.stages.io.http.client import HttpClient
from rollup_node.stages.io.http.endpoint_errors import AnswerTooLargeError, EndpointError, NoAnswerError
from tests.support.processes.stage_runner import run_within
from tests.support.servers.raw_http import (
    ANY_CONTEXT,
    HEAD,
    LIMIT,
    OK,
    Server,
    Tls,
    answers,
    ask,
    client_of,
    got,
    over_both,
    serving,
    url_of,
)


def error_of(server: Server, timeout: float = 20.0) -> EndpointError:
    """Return the error of a request; its connection is closed."""

    async def main() -> EndpointError:
        async with client_of(server) as client:
            with pytest.raises(EndpointError) as caught:
                await ask(client, timeout)
            await server.closed.get()
            return caught.value

    return run_within(30, main)


async def close(writer: StreamWriter) -> None:
    writer.close()


async def reset(writer: StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def drip(writer: StreamWriter) -> None:
    writer.write(HEAD)
    while True:
        writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(0.01)


@over_both
def test_one_connection_carries_requests_one_after_another() -> None:
    async def until_the_end(writer: StreamWriter) -> None:
        writer.write(HEAD + b"\r\n2")
        writer.close()

    server = Server(OK, HEAD + b"Connection: close\r\nContent-Length: 1\r\n\r\n1", until_the_end, OK)
    assert answers(server, 4) == [b"{}", b"1", b"2", b"{}"]
    assert [number for number, _ in server.requests] == [1, 1, 2, 3]


@over_both
def test_what_a_request_says() -> None:
    server = Server(OK, OK, OK)
    tokens = iter(["one", "one", "two"])
    answers(server, 3, headers=lambda: {"Authorization": next(tokens), "user-agent": "x"})
    other = Server(OK)
    answers(other, 1, host="::1", user="me:p%40ss@")
    request = other.requests[0][1]
    assert b"\r\nHost: [::1]:" in request
    assert b"\r\nAuthorization: Basic " + base64.b64encode(b"me:p@ss") + b"\r\n" in request
    host, *lines = server.requests[0][1].split(b"\r\n")[1:]
    assert re.fullmatch(rb"Host: 127\.0\.0\.1:\d+", host)
    assert server.requests[0][1].startswith(b"POST /a%20b?c=d HTTP/1.1\r\n")
    assert lines == [
        b"Accept: application/json",
        b"Accept-Encoding: gzip",
        b"Content-Type: application/json",
        b"Authorization: one",
        b"user-agent: x",
        b"Content-Length: 2",
        b"",
        b"{}",
    ]
    assert [b"Authorization: two" in request for _, request in server.requests] == [False, False, True]
    with pytest.raises(EndpointError, match="a header of the request has a line break"):
        answers(server, 1, headers=lambda: {"X": "a\r\nHost: other"})
    assert len(server.requests) == 3


@over_both
async def test_requests_at_a_time_have_a_connection_each() -> None:
    server = Server(*[OK] * 6)
    async with client_of(server) as client:
        for _ in range(2):
            await asyncio.gather(*(ask(client) for _ in range(3)))
    assert sorted(number for number, _ in server.requests) == [1, 1, 2, 2, 3, 3]


@over_both
def test_a_connection_closed_before_its_answer_has_the_request_sent_again_once() -> None:
    """And one that is reset not, nor one whose answer comes in drips until the deadline."""
    error = error_of(Server(drip), 0.3)
    assert str(error) == "name: no answer within 0.3 s" and isinstance(error, NoAnswerError)
    server = Server(OK, close, OK)
    assert answers(server, 2) == [b"{}", b"{}"]
    assert [number for number, _ in server.requests] == [1, 1, 2]
    server = Server(close, close, OK)
    assert str(error_of(server)) == "name: the connection failed (closed by the server before its answer)"
    assert len(server.requests) == 2
    server = Server(reset, OK)
    assert str(error_of(server)) == "name: the connection failed (Connection reset by peer)"
    assert len(server.requests) == 1


async def test_a_host_that_cannot_be_reached_in_time_is_not_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(*_: Any, **__: Any) -> None:
        await asyncio.sleep(20.0)

    def not_found(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(aiohappyeyeballs, "start_connection", connect)
    monkeypatch.setattr(socket, "getaddrinfo", not_found)
    hosts = (("127.0.0.1", "no answer in time", 0.05), ("nowhere.invalid", "Name or service not known", 20.0))
    for host, text, timeout in hosts:
        with pytest.raises(EndpointError, match=rf"^name: cannot connect \({text}\)$") as caught:
            await ask(HttpClient(f"http://{host}:1/", "name"), timeout)
        assert not isinstance(caught.value, NoAnswerError)


def holding() -> tuple[Server, asyncio.Event]:
    """Return a server that does not answer its first request, and the event of that."""
    arrived = asyncio.Event()

    async def hold(_: StreamWriter) -> None:
        arrived.set()

    return Server(hold, OK), arrived


@over_both
@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_request_that_is_cancelled_or_whose_client_is_closed_ends(is_cancelled: bool) -> None:
    """And its connection."""
    server, arrived = holding()
    async with client_of(server) as client:
        request = asyncio.ensure_future(ask(client))
        await arrived.wait()
        if is_cancelled:
            request.cancel()
        else:
            await client.close()
            with pytest.raises(EndpointError, match=r"the connection failed \(closed\)"):
                await request
        assert await server.closed.get() == 1
        assert await ask(client) == b"{}"


@over_both
async def test_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a time, and when the server sends what nobody asked for."""
    release = asyncio.Event()

    async def more_later(writer: StreamWriter) -> None:
        writer.write(OK)
        await release.wait()
        writer.write(OK)

    server = Server(OK, more_later, OK)
    async with client_of(server) as client:
        monkeypatch.setattr(connection, "IDLE_SECONDS", 0.01)
        await ask(client)
        assert await server.closed.get() == 1
        monkeypatch.undo()
        await ask(client)
        release.set()
        assert await server.closed.get() == 2
        assert await ask(client) == b"{}"
    assert [number for number, _ in server.requests] == [1, 2, 3]


@pytest.mark.parametrize(
    ("data", "encoding", "text"),
    [
        (b"no gzip", b"gzip", "the compressed answer is damaged"),
        (b"x", b"br", "the answer has the content encoding 'br'"),
        (b"x", b"gzip, gzip", "the answer has the content encoding 'gzip, gzip'"),
        (gzip.compress(bytes(1 << 20), mtime=0), b"x-gzip", "the answer is longer than 100000 bytes"),
    ],
)
def test_answers_that_cannot_be_decompressed(data: bytes, encoding: bytes, text: str) -> None:
    response = HEAD + b"Content-Encoding: %b\r\nContent-Length: %d\r\n\r\n%b" % (encoding, len(data), data)
    error = error_of(Server(response))
    assert str(error) == f"name: {text}" and isinstance(error, AnswerTooLargeError) == ("longer" in text)


@pytest.mark.parametrize(
    ("early", "text", "connections"),
    [
        (b"HTTP/1.1 413 Too large\r\nContent-Length: 0\r\n\r\n", "413", 1),
        (b"", "name: the connection failed (closed by the server before its answer)", 2),
    ],
)
async def test_a_server_that_does_not_read_the_whole_request(early: bytes, text: str, connections: int) -> None:
    """The rest is not sent, though the server keeps the connection open."""
    served = 0

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        nonlocal served
        served += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(early)
        if not early:
            writer.write_eof()
        while await reader.read(1 << 16):
            await asyncio.sleep(0)

    async with asyncio.timeout(20), serving(serve) as port:
        client = HttpClient(f"http://127.0.0.1:{port}", "name")
        try:
            assert str((await client.post(bytes(16 << 20), 20, LIMIT)).status) == text
        except EndpointError as error:
            assert str(error) == text
        await client.close()
    assert served == connections


# --- other requests --------------------------------------------------------------------------------------------------


@over_both
def test_a_resource_is_read_with_the_headers_of_client_and_request() -> None:
    server = Server(b"HTTP/1.1 404 No\r\nX-A: first\r\nX-a: second\r\nContent-Length: 2\r\n\r\nno")
    answer = got(server, {"Accept": "application/octet-stream"})
    assert (answer.status, answer.body, answer.headers["x-a"]) == (404, b"no", "first")
    request = server.requests[0][1]
    assert request.startswith(b"GET /a%20b/x HTTP/1.1\r\n") and request.endswith(b"\r\n\r\n")
    assert b"X-Key: key\r\n" in request and b"text/html" not in request
    assert b"\r\nAccept: application/octet-stream\r\n" in request
    parts: list[bytes] = []
    assert got(Server(OK.replace(b"{}", b"ab")), {}, take=parts.append).body == b"", "it is taken as it arrives"
    assert b"".join(parts) == b"ab"


@over_both
async def test_another_context_than_before_means_another_connection() -> None:
    contexts = [ANY_CONTEXT if Tls.client is None else Tls.client, ANY_CONTEXT]
    server = Server(OK, OK, OK)
    async with url_of(server) as url:
        client = HttpClient(url, "name", None, lambda: contexts.pop(0))
        await ask(client)
        if Tls.client is not None:
            with pytest.raises(EndpointError, match="certificate not accepted"):
                await ask(client)
        with pytest.raises(IndexError):
            await ask(client)
            await ask(client)
        await client.close()


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://a..b:1", "the host name is invalid"),
        ("http://localhost:1", "Connection refused"),  # it has two addresses; there is one reason
        ("nonsense", "it has no URL of HTTP"),
        ("http://[", "it has no URL of HTTP"),
        ("ftp://127.0.0.1/", "it has no URL of HTTP"),
        ("http:///x", "it has no URL of HTTP"),
    ],
)
async def test_what_cannot_be_connected_to(url: str, text: str) -> None:
    with pytest.raises(EndpointError) as caught:
        await ask(HttpClient(url, "name"))
    assert str(caught.value) == f"name: cannot connect ({text})"
