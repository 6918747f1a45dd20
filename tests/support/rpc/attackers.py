"""Clients that attack an HTTP JSON-RPC server, from a process of their own so that honest clients of the test do not
wait for them: `python -m tests.support.rpc.attackers`, or with the words ATTACK PORT SOURCE that one attack alone.
SOURCE is the address on the loopback interface that connections come from."""

import asyncio
import contextlib
import resource
import socket
import sys
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable

import orjson

from tests.support.processes import forked_attacks

HEAD = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
ROUND_SECONDS = 20.0
REPLACE_SECONDS = 1.0
"""After which a connection that the server has closed is replaced."""
MIB = 1 << 20


class Target(forked_attacks.Effects):
    """Where the connections go to and come from, over plain sockets, which send without copying."""

    def __init__(self, port: int, source: str) -> None:
        super().__init__()
        self._address, self._source = ("127.0.0.1", port), (source, 0)
        self._loop = asyncio.get_running_loop()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[socket.socket]:
        """Yield a new connection."""
        with socket.socket() as connection:
            connection.setblocking(False)
            connection.bind(self._source)
            await self._loop.sock_connect(connection, self._address)
            yield connection

    async def send(self, connection: socket.socket, data: bytes) -> None:
        """Send as fast as the server reads."""
        await self._loop.sock_sendall(connection, data)

    async def receive(self, connection: socket.socket, size: int) -> bytes:
        """At most so many bytes; none when the server has closed the connection."""
        return await self._loop.sock_recv(connection, size)

    async def drain(self, connection: socket.socket) -> None:
        """Read until the server closes the connection."""
        while await self.receive(connection, MIB):
            pass

    async def exchange(self, data: bytes) -> None:
        """Send a request and reads until the server closes the connection, or for ROUND_SECONDS."""
        async with asyncio.timeout(ROUND_SECONDS), self.connection() as connection:
            await self.send(connection, data)
            await self.drain(connection)


def post(body: bytes, *headers: str) -> bytes:
    """Return a request after which the server closes the connection."""
    lines = "".join(f"{line}\r\n" for line in (f"Content-Length: {len(body)}", "Connection: close", *headers))
    return f"{HEAD}{lines}\r\n".encode() + body


def call(method: str, *params: object) -> bytes:
    """Return a JSON-RPC request object."""
    return orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


async def _keep(target: Target, count: int, *parts: bytes, unread: bool = False) -> None:
    """Holds that many connections, on each of which one of the parts has been sent, and replaces those that are closed.

    `unread`: of what the server sends the first byte alone is read. The attack is under way when every connection,
    or its successor, has got so far or was closed."""
    target.expect(count)

    async def attempt(part: bytes) -> None:
        async with target.connection() as connection:
            try:
                await target.send(connection, part)
                if unread:
                    await target.receive(connection, 1)
            finally:
                target.effect()
            if unread:
                await asyncio.Event().wait()
            await target.drain(connection)

    async def hold(part: bytes) -> None:
        while True:
            with contextlib.suppress(OSError):
                await attempt(part)
            await asyncio.sleep(REPLACE_SECONDS)

    await asyncio.gather(*(hold(parts[number % len(parts)]) for number in range(count)))


async def _repeat(target: Target, clients: int, action: Callable[[], Awaitable[object]], times: int = 1) -> None:
    """Lets that many clients repeat an action. The attack is under way when they have done it so many times in all."""
    target.expect(times)

    async def client() -> None:
        while True:
            with contextlib.suppress(OSError, TimeoutError):
                await action()
            target.effect()
            await asyncio.sleep(0)

    await asyncio.gather(*(client() for _ in range(clients)))


# --- batches -------------------------------------------------------------------------------------------------------


async def numbers(target: Target) -> None:
    """Batches of 300,000 items that are no requests."""
    request = post(b"[" + b"1," * 299_999 + b"1]")
    await _repeat(target, 2, lambda: target.exchange(request), 8)


async def empty_lists(target: Target) -> None:
    """Batches whose items take many times their size in memory."""
    request = post(b"[" + b"[]," * 1_600_000 + b"[]]")
    await _repeat(target, 4, lambda: target.exchange(request), 4)


async def many_calls(target: Target) -> None:
    """The largest batches of good calls that fit into a body."""
    item = call("optimism_syncStatus")
    request = post(b"[" + b",".join([item] * (5 * MIB // (len(item) + 1) - 1)) + b"]")
    await _repeat(target, 4, lambda: target.exchange(request), 4)


async def full_batches(target: Target) -> None:
    """Batches of 1,000 good calls over 64 connections, without pause."""
    request = post(b"[" + b",".join([call("optimism_syncStatus")] * 1000) + b"]")
    await _repeat(target, 64, lambda: target.exchange(request))


async def nested_values(target: Target) -> None:
    """Call with parameters that take many times their size in memory."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"optimism_version","params":[' + b'{"a":{}},' * 550_000 + b"1]}"
    request = post(body)
    await _repeat(target, 8, lambda: target.exchange(request), 8)


async def unread_answers(target: Target) -> None:
    """Batches whose answers nobody reads."""
    body = b"[" + b",".join([call("optimism_rollupConfig")] * 1000) + b"]"
    await _keep(target, 100, post(body, "Accept-Encoding: identity"), unread=True)


# --- single requests -----------------------------------------------------------------------------------------------


async def flood_of_calls(target: Target) -> None:
    """Call over 200 connections, each sent as soon as the last is answered."""
    request = post(call("optimism_syncStatus"))
    await _repeat(target, 200, lambda: target.exchange(request), 400)


async def abandoned_calls(target: Target) -> None:
    """Call that take long, of clients that go away."""
    request = post(call("optimism_outputAtBlock", "0x1"))

    async def abandon() -> None:
        async with target.connection() as connection:
            await target.send(connection, request)
            await asyncio.sleep(0.02)

    await _repeat(target, 20, abandon, 100)


async def large_payloads(target: Target) -> None:
    """Unsafe payloads with as many transactions as a body may have."""
    payload = {
        **dict.fromkeys(("parentHash", "stateRoot", "receiptsRoot", "prevRandao", "blockHash"), "0x" + "11" * 32),
        **dict.fromkeys(("blockNumber", "gasLimit", "gasUsed", "timestamp", "baseFeePerGas"), "0x1"),
        "feeRecipient": "0x" + "22" * 20,
        "logsBloom": "0x" + "00" * 256,
        "extraData": "0x",
        "transactions": ["0x02" + "00" * 50] * 45_000,
    }
    request = post(call("admin_postUnsafePayload", {"executionPayload": payload}))
    await _repeat(target, 2, lambda: target.exchange(request), 2)


async def compressed_bodies(target: Target) -> None:
    """Bodies that a server which honours Content-Encoding decompresses to a gigabyte; only their checksum is missing.

    The repeated part is compressed once."""
    packer = zlib.compressobj(9, wbits=31)
    first, repeated = (packer.compress(b" " * MIB) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    request = post(first + repeated * 999, "Content-Encoding: gzip")
    await _repeat(target, 8, lambda: target.exchange(request), 8)


async def malformed_requests(target: Target) -> None:
    """What is no HTTP, a chunk without a size, and calls that do not end."""
    requests = (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost : x\r\n\r\n",
        f"{HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n".encode(),
        f"{HEAD}Content-Length: -1\r\n\r\n".encode(),
    )

    async def send_all() -> None:
        await asyncio.gather(*map(target.exchange, requests), return_exceptions=True)

    await _repeat(target, 8, send_all, 16)


# --- connections ---------------------------------------------------------------------------------------------------


async def idle_connections(target: Target) -> None:
    """800 connections that are silent, or stop within the header or the body."""
    half_body = f"{HEAD}Content-Length: 100\r\n\r\n[1".encode()
    await _keep(target, 800, b"", b"POST / HTTP/1.1\r\nHost: ", half_body)


async def half_sent_bodies(target: Target) -> None:
    """100 bodies that stop shortly before their end, each of almost the largest size."""
    await _keep(target, 100, f"{HEAD}Content-Length: {5 * MIB}\r\n\r\n".encode() + b" " * (5 * MIB - 10))


async def endless_headers(target: Target) -> None:
    """400 requests with as many headers as the parser takes, and no end."""
    headers = "".join(f"X-{number}: {'y' * 8000}\r\n" for number in range(120))
    await _keep(target, 400, f"{HEAD}{headers}".encode())


async def pipelined_requests(target: Target) -> None:
    """300 connections with thousands of requests at once, whose answers nobody reads."""
    await _keep(target, 300, b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n" * 5000, unread=True)


async def pending_calls(target: Target) -> None:
    """400 calls that another process does not answer."""
    await _keep(target, 400, post(call("optimism_outputAtBlock", "0x1")))


ATTACKS = {
    attack.__name__: attack
    for attack in (
        *(numbers, empty_lists, many_calls, full_batches, nested_values, unread_answers),
        *(flood_of_calls, abandoned_calls, large_payloads, compressed_bodies, malformed_requests),
        *(idle_connections, half_sent_bodies, endless_headers, pipelined_requests, pending_calls),
    )
}


def attack_forever(attack: str, port: str, source: str) -> None:
    """Attacks until the process is killed."""

    async def main() -> None:
        await ATTACKS[attack](Target(int(port), source))

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(main())


if __name__ == "__main__":
    sys.exit(forked_attacks.run(attack_forever))
