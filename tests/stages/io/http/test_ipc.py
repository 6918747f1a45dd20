"""JSON-RPC over IPC with a real socket: values in pieces, requests that wait, bounds, and wrong sockets."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.io.http import message_transport
from rollup_node.stages.io.http.connection import BodyTooLargeError
from rollup_node.stages.io.http.endpoint_errors import AnswerTooLargeError, EndpointError
from rollup_node.stages.io.http.ipc import IpcConnection, JsonStream
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.foreign_json import MalformedJsonError

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('ab"\\{}[]\n', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('k"]', max_size=2), inner, max_size=3),
    max_leaves=8,
)
MESSAGES = st.lists(
    st.dictionaries(st.text("id", max_size=2), JSON, max_size=3) | st.lists(JSON, max_size=3), max_size=5
)


def encoded(value: Any, pretty: bool) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 if pretty else 0)


@settings(max_examples=30)
@given(MESSAGES, st.booleans(), st.sampled_from([b"", b"\n", b" \r\n", b"\n\n"]), st.integers(1, 30))
def test_values_come_out_as_they_were_sent_whatever_the_pieces(
    messages: list[Any], pretty: bool, end: bytes, size: int
) -> None:
    """[WSK8]"""
    sent = b"".join(encoded(message, pretty) + end for message in messages)
    stream, values = JsonStream(1 << 20), []
    for first in range(0, len(sent), size):
        values += stream.feed(sent[first : first + size])
    # The last piece may end within the white space.
    assert [orjson.loads(value) for value in values] == messages


def test_a_long_string_in_pieces_is_looked_at_once() -> None:
    """[WSK8] Pieces that end as a value may end make no work for all that came before."""
    stream, piece = JsonStream(1 << 30), b'\\"' * 8000 + b"}"
    stream.feed(b'{"id":1,"result":"')
    began = time.process_time()
    for _ in range(500):
        assert stream.feed(piece) == []
    assert time.process_time() - began < 3
    assert len(stream.feed(b'"}\n')[0]) > 500 * len(piece)


@pytest.mark.parametrize("data", [b"garbage\n", b"x{}", b"{},{}", b'{}"text"\n', b"{}{} x"])
def test_what_is_between_values_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedJsonError):
        JsonStream(100).feed(data + b"{}")


def test_a_value_is_bounded() -> None:
    """[WSK8]"""
    whole = b'{"a":"' + b"x" * 92 + b'"}'
    assert JsonStream(100).feed(whole) == [whole]
    for data in (whole.replace(b"x", b"xy", 1), b"[" * 101, whole.replace(b"x", b"xy", 1) + b"\n"):
        with pytest.raises(BodyTooLargeError):
            JsonStream(100).feed(data)


@asynccontextmanager
async def socket_at(path: Path, serve: Serve) -> AsyncIterator[None]:
    """Serve a socket, and break its connections at the end."""
    writers: list[asyncio.StreamWriter] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with suppress(OSError):
            await serve(reader, writer)
        writer.close()

    server = await asyncio.start_unix_server(handle, path)
    try:
        yield
    finally:
        server.close()
        for writer in writers:
            writer.close()
        path.unlink()


@asynccontextmanager
async def client_of(path: Path, serve: Serve, **options: Any) -> AsyncIterator[JsonRpcClient]:
    async with socket_at(path, serve):
        client = JsonRpcClient(str(path), **options)
        try:
            yield client
        finally:
            await client.close()


async def failure_of(client: JsonRpcClient) -> EndpointError:
    with pytest.raises(EndpointError) as caught:
        await client.call("eth_x")
    return caught.value


async def test_a_server_that_restarts_is_connected_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[WSK3, WSK5, WSK7]"""
    monkeypatch.setattr(message_transport, "FIRST_PAUSE", 0.01)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(orjson.dumps({"id": orjson.loads(line)["id"], "result": "0x1"}) + b"\n")

    path = tmp_path / "x.ipc"
    client = JsonRpcClient(str(path))
    assert str(await failure_of(client)) == f"{path}: cannot connect (No such file or directory)"
    for _ in range(2):
        async with socket_at(path, serve), asyncio.timeout(20):
            result = None
            while result is None:
                with suppress(EndpointError):
                    result = await client.call("eth_x")
                await asyncio.sleep(0.005)
            assert result == "0x1"
    await client.close()


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (b"garbage\n", EndpointError, "lost (malformed message, the answer is not JSON: garbage)"),
        (b"[" * 5000 + b"\n", EndpointError, "lost (malformed message, the answer is nested more than 1000 deep)"),
        (b"[" * 5000 + b"]" * 5000 + b"\n", EndpointError, "the answer is nested more than 1000 deep"),
        (b'{"id":1,"result":' + b"[" * 5000 + b"]" * 5000 + b"}\n", EndpointError, "is nested more than 1000"),
        (b'{"id":1}\n', EndpointError, "the answer to eth_x has neither result nor error"),
        (b'{"id":1,"result":"' + b"x" * (1 << 20) + b'"}\n', AnswerTooLargeError, "longer than 65536 bytes"),
        (b'{"id":1,"result":"' + b"x" * (1 << 20), AnswerTooLargeError, "longer than 65536 bytes"),
        (b"", EndpointError, "the IPC connection was lost (closed by the endpoint)"),
    ],
)
async def test_what_a_server_may_send(answer: bytes, kind: type[EndpointError], text: str, tmp_path: Path) -> None:
    """[WSK3, WSK7, WSK8]"""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        if answer:
            await reader.read()

    async with client_of(tmp_path / "x.ipc", serve, max_body=65_536) as client:
        error = await failure_of(client)
    assert type(error) is kind or kind is EndpointError
    assert text in str(error)


async def test_requests_wait_for_a_server_that_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[WSK8] What a server does not read takes no more memory with every request that is given up."""
    read, sent = asyncio.Event(), []
    write = IpcConnection.send

    async def send(connection: IpcConnection, body: bytes) -> None:
        await write(connection, body)
        sent.append(body)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await read.wait()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        while data := await reader.read(1 << 20):
            if data.endswith(b"\n"):
                writer.write(b'{"id":21,"result":"late"}\n')

    monkeypatch.setattr(IpcConnection, "send", send)
    async with client_of(tmp_path / "x.ipc", serve) as client:
        for _ in range(20):
            with pytest.raises(EndpointError, match="no answer within"):
                await client.call("eth_x", "x" * (1 << 20), timeout=0.02)
        assert len(sent) == 1
        read.set()
        assert await client.call("eth_x", timeout=20) == "late"


async def test_paths_that_are_no_socket_of_ours_are_one_line(tmp_path: Path) -> None:
    """[WSK9]"""
    file = tmp_path / "file"
    file.write_text("x")
    dead = tmp_path / "dead.ipc"
    async with socket_at(dead, lambda *_: asyncio.sleep(0)):
        os.link(dead, tmp_path / "left.ipc")
    for path, text in (
        (tmp_path / "none.ipc", "No such file or directory"),
        (file, "it is no socket"),
        (tmp_path, "it is no socket"),
        (tmp_path / "left.ipc", "Connection refused"),
    ):
        client = JsonRpcClient(str(path))
        assert str(await failure_of(client)) == f"{path}: cannot connect ({text})"
        await client.close()
