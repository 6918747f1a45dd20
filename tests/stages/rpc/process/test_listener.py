"""Turns on the event loop. The bounds of an HTTP server on connections, memory and time, over real sockets
[RPC8]."""

import asyncio
import resource
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import msgspec
import pytest
from aiohttp import ClientSession, web

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.rpc.connections import ClientConnection, Limits, Phase
from rollup_node.stages.rpc.process import listener as listener_module
from rollup_node.stages.rpc.process.listener import Exchange, Listener, Turns, free_descriptors
from tests.support.rpc.harness import running_listener


@pytest.mark.parametrize(
    ("waiting", "order"),
    [
        ("a1 a2 a3 b1", "a1 a2 b1 a3"),
        ("a1 a2 a3 b1 c1 c2", "a1 a2 b1 c1 a3 c2"),
        ("a1 a2 a3 b1 a4! a5!", "a1 a4! b1 a5! a2 a3"),
    ],
)
async def test_keys_take_turns_one_per_iteration_and_of_each_urgent_ones_first(waiting: str, order: str) -> None:
    """The first has nobody to wait for."""
    turns = Turns(1)
    taken: list[str] = []

    async def work(name: str) -> None:
        await turns.turn(name[0], urgent=name.endswith("!"))
        taken.append(name)

    names = waiting.split()
    tasks = [asyncio.create_task(work(name)) for name in names]
    progress = []
    while len(taken) < len(names):
        await asyncio.sleep(0)
        progress.append(len(taken))
    assert " ".join(taken) == order
    assert progress[0] == 1 and all(later - earlier <= 1 for earlier, later in pairwise(progress))
    await asyncio.gather(*tasks)
    await asyncio.sleep(0)
    await asyncio.wait_for(turns.turn("a"), 1)


async def test_the_turn_of_one_that_is_cancelled_goes_to_the_next() -> None:
    turns = Turns(1)
    await turns.turn("a")
    first, cancelled, waiting = (asyncio.create_task(turns.turn("a")) for _ in range(3))
    await asyncio.sleep(0)
    cancelled.cancel()
    async with asyncio.timeout(5):
        await waiting
    assert first.done() and cancelled.cancelled()


LIMITS = Limits(connections=16, per_address=8, held_bytes=1 << 20)
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LAST_GET = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
Respond = Callable[[web.BaseRequest, Exchange], Awaitable[web.StreamResponse]]


async def respond(request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
    """Answers with the size of the body."""
    return web.Response(text=str(len(await exchange.read_body(1 << 20))))


class Server:
    """A listener, and connections to it, which end with it."""

    def __init__(self, listener: Listener, meter: Meter) -> None:
        self.listener, self.meter = listener, meter
        self.writers: list[asyncio.StreamWriter] = []

    async def connect(self, sent: bytes = b"") -> asyncio.StreamReader:
        """Return a connection on which something has been sent."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port)
        self.writers.append(writer)
        writer.write(sent)
        return reader

    def closed(self, reason: str) -> bool:
        """Whether connections were closed for this reason."""
        sample = f'rpc_server_connections_closed_total{{reason="{reason}",server="rpc"}}'
        return sample.encode() in self.meter.text()


@asynccontextmanager
async def serving(handler: Respond = respond, limits: Limits = LIMITS) -> AsyncIterator[Server]:
    """Run a server."""
    meter = Meter("rpc")
    async with running_listener(handler, limits, meter=meter) as listener:
        server = Server(listener, meter)
        yield server
        for writer in server.writers:
            writer.close()


@pytest.mark.parametrize(
    ("addr", "hosts"),
    [
        *(("127.0.0.3", ["127.0.0.3"]), ("0.0.0.0", ["127.0.0.1"]), ("::", ["[::1]"])),
        ("localhost", ["127.0.0.1", "[::1]"]),
    ],
)
async def test_the_url_at_which_this_machine_reaches_it(addr: str, hosts: list[str]) -> None:
    """[LIF31]"""
    async with running_listener(respond, LIMITS, addr) as listener, ClientSession() as http:
        assert listener.local_url in [f"http://{host}:{listener.port}" for host in hosts]
        async with http.get(listener.local_url) as response:
            assert response.status == 200


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Return what comes until the server closes the connection."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes 100 times as fast for the deadlines of connections."""
    monkeypatch.setattr(Phase, "seconds", property(lambda phase: phase.value[0] / 100))
    monkeypatch.setattr(listener_module, "SWEEP_SECONDS", 0.02)


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HT", GET[:-2], b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n[1", GET],
    ids=["silent", "line", "header", "body", "idle after the response"],
)
async def test_clients_that_stop_are_closed(quick: None, sent: bytes) -> None:
    async with serving() as server:
        reader = await server.connect(sent)
        assert (await ended(reader)).partition(b"\r\n")[0] == (b"HTTP/1.1 200 OK" if sent == GET else b"")
        assert server.closed("timeout") is (sent != GET)


async def test_a_server_without_clients_never_wakes_up(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    sweep = Listener._sweep

    def counted(listener: Listener) -> None:
        looks.append(time.monotonic())
        sweep(listener)

    monkeypatch.setattr(Listener, "_sweep", counted)
    async with serving() as server:
        await asyncio.sleep(0.1)
        assert not looks
        for _ in range(2):
            before = len(looks)
            reader = await server.connect(b"GET / HT")
            assert await ended(reader) == b"" and len(looks) > before
        count = len(looks)
        await asyncio.sleep(0.1)
        assert len(looks) <= count + 1


async def test_a_client_that_does_not_read_its_response_is_closed(quick: None) -> None:
    async def large(request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        return web.Response(body=bytes(20 << 20))

    async with serving(large, msgspec.structs.replace(LIMITS, held_bytes=100 << 20)) as server:
        await server.connect(GET)
        (writer,) = server.writers
        assert isinstance(writer.transport, asyncio.Transport)
        writer.transport.pause_reading()
        while not server.closed("timeout"):
            await asyncio.sleep(0.02)


async def test_a_response_without_an_end_may_take_any_time(quick: None) -> None:
    async def stream(request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        exchange.stream(7)
        assert server.listener.held == 7
        await asyncio.sleep(2 * Phase.RESPONSE.seconds)
        await response.write(b"end")
        return response

    async with serving(stream) as server:
        reader = await server.connect(LAST_GET)
        assert b"end" in await ended(reader)


async def test_the_newest_connection_is_served_at_the_limit() -> None:
    async with serving() as server:
        held = [await server.connect() for _ in range(3 * LIMITS.per_address)]
        reader = await server.connect(LAST_GET)
        assert (await ended(reader)).startswith(b"HTTP/1.1 200 OK")
        assert server.closed("connections")
        assert await ended(held[0]) == b""


async def test_bodies_are_bounded_in_all() -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n"
    async with serving() as server:
        for _ in range(2):
            await server.connect(head + bytes(800_000))
        while not server.closed("memory"):
            await asyncio.sleep(0.01)
        reader = await server.connect(GET)
        assert (await reader.readline()) == b"HTTP/1.1 200 OK\r\n"


async def test_request_and_response_are_held_until_that_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    held, finished = list[int](), Listener.finished

    def seen(listener: Listener, connection: ClientConnection) -> None:
        held.append(listener.held)
        finished(listener, connection)

    monkeypatch.setattr(Listener, "finished", seen)
    async with serving() as server:
        reader = await server.connect(LAST_GET)
        assert (await ended(reader)).endswith(b"\r\n\r\n0") and server.listener.held == 0
    assert held == [len(LAST_GET) + 1]


async def test_what_keeps_the_event_loop_busy_takes_turns() -> None:
    async def busy(request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        tasks = [asyncio.create_task(exchange.turn()) for _ in range(3)]
        iterations = 0
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            iterations += 1
        return web.Response(text=str(iterations))

    async with serving(busy) as server:
        reader = await server.connect(LAST_GET)
        assert int((await ended(reader)).rpartition(b"\r\n")[2]) >= 3


async def test_malformed_requests_are_answered_and_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    async with serving() as server:
        for _ in range(50):
            reader = await server.connect(b"GET /\x00 HTTP/1.1\r\nHost : x\r\n\r\n")
            assert (await ended(reader)).startswith(b"HTTP/1.0 400 Bad Request")
        assert server.closed("malformed")
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("written", [b"", bytes(1000)])
async def test_a_client_that_goes_away_ends_its_handler_and_is_not_logged(
    written: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    handled = asyncio.Event()

    async def endless(request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(written)
                await asyncio.sleep(0.001)
        finally:
            handled.set()

    async with serving(endless) as server:
        reader = await server.connect(GET)
        await reader.readline()
        server.writers[0].transport.abort()
        await handled.wait()
    assert capsys.readouterr().err == ""


async def test_a_bug_is_logged_and_an_internal_error(capsys: pytest.CaptureFixture[str]) -> None:
    async def crash(request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        raise ZeroDivisionError

    async with serving(crash) as server:
        reader = await server.connect(GET)
        assert (await reader.readline()).startswith(b"HTTP/1.1 500 ")
    assert "ZeroDivisionError" in capsys.readouterr().err


async def test_too_few_descriptors_are_named() -> None:
    with pytest.raises(CriticalError, match=r"too few file descriptors for the rpc server.*ulimit -n"):
        async with serving(limits=LIMITS.within(4)):
            raise AssertionError("it started")


def test_free_descriptors_are_what_the_limit_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (10_000, 10_000))
    assert 9000 < free_descriptors() < 10_000
    monkeypatch.setattr(resource, "getrlimit", lambda which: (10, 10))
    assert free_descriptors() == 0


async def test_a_port_in_use_is_named_with_the_options_to_change() -> None:
    async with serving() as server:
        second = Listener(respond, "rpc", "127.0.0.1", server.listener.port, LIMITS, server.meter)
        with pytest.raises(CriticalError, match=r"cannot listen on 127\.0\.0\.1:\d+ .*rpc\.addr and rpc\.port"):
            await second.start()
        await second.close()
