"""The client of /status.json, of the real server and of servers that answer something else."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from rollup_node.tools.inspect import status_client
from rollup_node.tools.inspect.status_client import (
    FIRST_NOTICE,
    MAX_ANSWER,
    NOTICE_INTERVAL,
    Patience,
    StatusClient,
    StatusError,
)
from tests.support.rpc.harness import RpcHarness
from tests.support.servers.loopback import free_port


def test_the_status_of_a_node(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with RpcHarness(tmp_path, vhosts=("localhost",)).running() as rpc:
            await rpc.until_ready()
            async with StatusClient(f"{rpc.url}/") as client:
                status = await client.fetch()
                assert status.ready and status.heads.safe is not None and status.heads.safe.number == 20
                assert (await client.fetch()).chain == status.chain

    asyncio.run(scenario())


@asynccontextmanager
async def answering(answer: bytes, keeps_open: bool = False) -> AsyncIterator[str]:
    """The URL of a server that sends these bytes to anybody."""

    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        if keeps_open:
            await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for writer in writers:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()


def http(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers))
    return head.encode() + b"\r\n" + body


async def error_of(url: str) -> str:
    async with StatusClient(url) as client:
        with pytest.raises(StatusError) as raised:
            await client.fetch()
    text = str(raised.value)
    assert text.startswith(f"--rpc: {url.removeprefix('http://')}: ") and "\n" not in text
    return text.partition(": ")[2].partition(": ")[2]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (http(b"{}"), "answers /status.json with something else: is the node of this version?"),
        (http(b"\xff"), "answers /status.json with something else: is the node of this version?"),
        (http(b"[" * 100_000), "answers /status.json with something else: is the node of this version?"),
        (http(b"9" * 5000), "answers /status.json with something else: is the node of this version?"),
        (http(b"x", "404 Not Found"), "has no /status.json: is it the JSON-RPC of a rollup-node of this version?"),
        (http(b"no\nentry\x1b", "403 Forbidden"), "HTTP status 403 for /status.json: no\\nentry\\x1b"),
        (http(b"", "302 Found"), "HTTP status 302 for /status.json: "),
        (lambda: http(bytes(MAX_ANSWER + 1)), f"the answer is longer than {MAX_ANSWER} bytes"),
        (
            lambda: http(gzip.compress(bytes(64 << 20)), "200 OK", "Content-Encoding: gzip"),
            f"the answer is longer than {MAX_ANSWER} bytes",
        ),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "the connection failed ("),
        (b"", "the connection failed ("),
    ],
)
def test_something_else_is_one_line(answer: bytes | Callable[[], bytes], error: str) -> None:
    async def scenario() -> None:
        async with answering(answer if isinstance(answer, bytes) else answer()) as url:
            assert (await error_of(url)).startswith(error)

    asyncio.run(scenario())


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one who never ends the answer."""
    monkeypatch.setattr(status_client, "ANSWER_SECONDS", 0.3)

    async def scenario() -> None:
        assert (await error_of(f"http://127.0.0.1:{free_port()}")).startswith("cannot connect (")
        for answer in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"):
            async with answering(answer, keeps_open=True) as url:
                assert await error_of(url) == "no answer within 0.3 s"

    asyncio.run(scenario())


def test_without_a_timeout_it_never_ends_and_says_so_once_a_minute() -> None:
    patience = Patience(None, 100.0)
    assert not patience.is_over(1e9)
    assert patience.notice(100 + FIRST_NOTICE - 1, "blobs") == ""
    assert patience.notice(100 + FIRST_NOTICE, "blobs") == "rollup-node: waiting for 15s: blobs\n"
    assert patience.notice(100 + FIRST_NOTICE + NOTICE_INTERVAL - 1, "blobs") == ""
    assert patience.notice(100 + FIRST_NOTICE + NOTICE_INTERVAL, "L1").endswith("waiting for 1m15s: L1\n")


def test_progress_begins_the_time_again() -> None:
    patience = Patience(30.0, 0.0)
    patience.progress(29.0)
    assert not patience.is_over(59.0)
    assert patience.notice(29 + FIRST_NOTICE - 1, "") == ""
    assert patience.is_over(59.1)
