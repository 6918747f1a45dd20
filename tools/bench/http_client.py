"""Measures the CPU time of one JSON-RPC call over loopback.

A bare socket, our HTTP client, and a forkchoice update by the engine client. The server is another process that sends
the same bytes whatever it receives."""

import argparse
import asyncio
import contextlib
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection

from rollup_node.stages.engine.calls.engine_api import ForkchoiceUpdate
from rollup_node.stages.engine.calls.heads import Forkchoice
from rollup_node.stages.engine.process.engine_client import EngineClient
from rollup_node.stages.io.http.client import HttpClient
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.tools.bench import synthetic_chain
from rollup_node.tools.bench.measure import Figure, show

MICRO = 1e6
HASH = b"\xab" * 32
ANSWER = (
    b'{"jsonrpc":"2.0","id":null,"result":{"payloadStatus":{"status":"VALID","latestValidHash":"0x%b",'
    b'"validationError":null},"payloadId":null}}' % HASH.hex().encode()
)
RESPONSE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nVary: Origin\r\nDate: Mon, 23 Nov 2026 05:00:00 GMT\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)
)
REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"engine_forkchoiceUpdatedV3","params":[' + b"0" * 240 + b"]}"
SECONDS = 20.0
MAX_ANSWER = 1 << 20

Call = Callable[[], Awaitable[object]]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; 1 when our client takes more than nine times the time of the bare socket."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    with server() as port:
        bare = tuple(bare_socket(port, args.calls) for _ in range(args.runs))
        measured = asyncio.run(clients(f"http://127.0.0.1:{port}/", args.calls, args.runs))
    ours, engine = measured
    ratios = tuple(mine / least for mine, least in zip(ours, bare, strict=True))
    return show(
        f"a JSON-RPC call over loopback, {args.calls} calls a run",
        [
            Figure("bare blocking socket", "us", bare),
            Figure("HTTP client", "us", ours),
            Figure("HTTP client / bare socket", "x", ratios, 9.0),
            Figure("forkchoice update by the engine client", "us", engine),
        ],
    )


async def clients(url: str, calls: int, runs: int) -> list[tuple[float, ...]]:
    """CPU microseconds a call of the HTTP client and the engine client, in turn."""
    client = HttpClient(url, "server")
    engine = EngineClient(url, HASH, SECONDS, synthetic_chain.config(), Meter("bench"))
    update = ForkchoiceUpdate(Forkchoice(HASH, HASH, HASH))
    work: list[Call] = [lambda: client.post(REQUEST, SECONDS, MAX_ANSWER), lambda: engine.ask(update)]
    try:
        rounds = [[await cpu_of(call, calls) for call in work] for _ in range(runs)]
    finally:
        await client.close()
        await engine.close()
    return list(zip(*rounds, strict=True))


async def cpu_of(call: Call, count: int) -> float:
    """CPU microseconds of one call after another; the connection is open before."""
    await call()
    started = time.process_time()
    for _ in range(count):
        await call()
    return (time.process_time() - started) / count * MICRO


def bare_socket(port: int, count: int) -> float:
    """CPU microseconds of a request sent and a response read by system calls alone."""
    request = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%b" % (len(REQUEST), REQUEST)
    with socket.create_connection(("127.0.0.1", port), SECONDS) as connection:
        started = time.process_time()
        for _ in range(count):
            connection.sendall(request)
            if connection.recv(1 << 16) != RESPONSE:
                raise RuntimeError("the response came in parts")
        return (time.process_time() - started) / count * MICRO


@contextlib.contextmanager
def server() -> Iterator[int]:
    """Yield the port of a server in a process of its own, which answers each packet with RESPONSE."""
    ours, theirs = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


class Server(asyncio.Protocol):
    """Answers each packet with RESPONSE."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(RESPONSE)


def _serve(pipe: Connection) -> None:
    async def main() -> None:
        listener = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
        pipe.send(listener.sockets[0].getsockname()[1])
        await listener.serve_forever()

    asyncio.run(main())


if __name__ == "__main__":
    sys.exit(main())
