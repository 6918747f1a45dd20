"""Clients that attack an HTTP JSON-RPC server, run as a program of their own so that honest clients of the test do not
wait for them: `python -m tests.support.rpc.attackers ATTACK PORT SOURCE`, until it is killed. It prints `attacking`
after the first round. SOURCE is the address on the loopback interface that connections come from."""

import asyncio
import contextlib
import resource
import sys
import zlib
from collections.abc import Awaitable, Callable

import orjson

HEAD = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
ROUND_SECONDS = 20.0
MIB = 1 << 20


class Target:
    """Where the connections go to and come from."""

    def __init__(self, port: int, source: str) -> None:
        self._port, self._source = port, source

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A new connection that reads as little ahead as it can."""
        return await asyncio.open_connection("127.0.0.1", self._port, limit=1024, local_addr=(self._source, 0))

    async def send(self, data: bytes) -> asyncio.StreamWriter:
        """Sends bytes over a new connection and leaves it open."""
        _, writer = await self.connect()
        writer.write(data)
        await writer.drain()
        return writer

    async def exchange(self, data: bytes) -> None:
        """Sends a request and reads until the server closes the connection, or for ROUND_SECONDS."""
        reader, writer = await self.connect()
        try:
            writer.write(data)
            async with asyncio.timeout(ROUND_SECONDS):
                while await reader.read(MIB):
                    pass
        finally:
            writer.close()


def post(body: bytes, *headers: str) -> bytes:
    """A request after which the server closes the connection."""
    lines = "".join(f"{line}\r\n" for line in (f"Content-Length: {len(body)}", "Connection: close", *headers))
    return f"{HEAD}{lines}\r\n".encode() + body


def call(method: str, *params: object) -> bytes:
    """A JSON-RPC request object."""
    return orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


async def _ignore_failures(*actions: Awaitable[object]) -> None:
    await asyncio.gather(*actions, return_exceptions=True)


async def _keep(target: Target, count: int, *parts: bytes, unread: bool = False) -> None:
    """Holds that many connections, on each of which one of the parts has been sent, and replaces those that are
    closed. `unread`: what the server sends is not read."""
    held: set[asyncio.Task[None]] = set()

    async def hold(number: int) -> None:
        reader, writer = await target.connect()
        try:
            writer.write(parts[number % len(parts)])
            if unread:
                assert isinstance(writer.transport, asyncio.Transport)
                writer.transport.pause_reading()
            await reader.read()
        finally:
            writer.close()

    number = 0
    while True:
        while len(held) < count:
            held.add(asyncio.create_task(hold(number)))
            number += 1
            if number % 50 == 0:
                await asyncio.sleep(0.005)
        done, held = await asyncio.wait(held, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.exception()
        if number >= count:
            print("attacking", flush=True)


async def _repeat(clients: int, action: Callable[[], Awaitable[object]]) -> None:
    """Lets that many clients repeat an action."""

    async def client() -> None:
        while True:
            with contextlib.suppress(OSError, TimeoutError):
                await action()
            print("attacking", flush=True)
            await asyncio.sleep(0)

    await asyncio.gather(*(client() for _ in range(clients)))


# --- batches -------------------------------------------------------------------------------------------------------


async def numbers(target: Target) -> None:
    """Batches of 300,000 items that are no requests."""
    await _repeat(2, lambda: target.exchange(post(b"[" + b"1," * 299_999 + b"1]")))


async def empty_lists(target: Target) -> None:
    """Batches whose items take many times their size in memory."""
    await _repeat(4, lambda: target.exchange(post(b"[" + b"[]," * 1_600_000 + b"[]]")))


async def many_calls(target: Target) -> None:
    """The largest batches of good calls that fit into a body."""
    item = call("optimism_syncStatus")
    body = b"[" + b",".join([item] * (5 * MIB // (len(item) + 1) - 1)) + b"]"
    await _repeat(4, lambda: target.exchange(post(body)))


async def full_batches(target: Target) -> None:
    """Batches of 1,000 good calls over 64 connections, without pause."""
    body = b"[" + b",".join([call("optimism_syncStatus")] * 1000) + b"]"
    await _repeat(64, lambda: target.exchange(post(body)))


async def nested_values(target: Target) -> None:
    """Calls with parameters that take many times their size in memory."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"optimism_version","params":[' + b'{"a":{}},' * 550_000 + b"1]}"
    await _repeat(8, lambda: target.exchange(post(body)))


async def unread_answers(target: Target) -> None:
    """Batches whose answers nobody reads."""
    body = b"[" + b",".join([call("optimism_rollupConfig")] * 1000) + b"]"
    request = post(body, "Accept-Encoding: identity")
    held: list[asyncio.StreamWriter] = []
    while True:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(5):
                writer = await target.send(request)
            assert isinstance(writer.transport, asyncio.Transport)
            writer.transport.pause_reading()
            held.append(writer)
        if len(held) == 100:
            print("attacking", flush=True)
        if len(held) > 300:
            held.pop(0).close()
        await asyncio.sleep(0.01)


# --- single requests -----------------------------------------------------------------------------------------------


async def flood_of_calls(target: Target) -> None:
    """Calls over 200 connections, each sent as soon as the last is answered."""
    await _repeat(200, lambda: target.exchange(post(call("optimism_syncStatus"))))


async def abandoned_calls(target: Target) -> None:
    """Calls that take long, of clients that go away."""

    async def abandon() -> None:
        writer = await target.send(post(call("optimism_outputAtBlock", "0x1")))
        await asyncio.sleep(0.02)
        writer.close()

    await _repeat(20, abandon)


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
    body = call("admin_postUnsafePayload", {"executionPayload": payload})
    await _repeat(2, lambda: target.exchange(post(body)))


async def compressed_bodies(target: Target) -> None:
    """Bodies that a server which honours Content-Encoding decompresses to a gigabyte."""
    packer = zlib.compressobj(9, wbits=31)
    body = b"".join(packer.compress(b" " * MIB) for _ in range(1000)) + packer.flush()
    await _repeat(8, lambda: target.exchange(post(body, "Content-Encoding: gzip")))


async def malformed_requests(target: Target) -> None:
    """What is no HTTP, a chunk without a size, and calls that do not end."""
    requests = (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost : x\r\n\r\n",
        f"{HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n".encode(),
        f"{HEAD}Content-Length: -1\r\n\r\n".encode(),
    )
    await _repeat(8, lambda: _ignore_failures(*(target.exchange(request) for request in requests)))


# --- connections ---------------------------------------------------------------------------------------------------


async def idle_connections(target: Target) -> None:
    """1,500 connections that are silent, or stop within the header or the body."""
    half_body = f"{HEAD}Content-Length: 100\r\n\r\n[1".encode()
    await _keep(target, 1500, b"", b"POST / HTTP/1.1\r\nHost: ", half_body)


async def half_sent_bodies(target: Target) -> None:
    """400 bodies that stop shortly before their end, each of almost the largest size."""
    await _keep(target, 400, f"{HEAD}Content-Length: {5 * MIB}\r\n\r\n".encode() + b" " * (5 * MIB - 10))


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


def main(attack: str, port: str, source: str) -> None:
    """Attacks until it is killed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(ATTACKS[attack](Target(int(port), source)))


if __name__ == "__main__":
    main(*sys.argv[1:4])
