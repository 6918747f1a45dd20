"""Measures how fast the interop process reads the logs of before its first round, from an instant engine to the file.

    python -m rollup_node.tools.bench.interop_backfill [--blocks 20000] [--logs 10] [--data 100]

Each of two chains has so many blocks, each with two receipts and so many logs of that many bytes. The engine is a
process of its own, whose answers are made before; the bound is that of seven days of blocks of two seconds."""

import argparse
import asyncio
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from rollup_node.stages.interop.config import ChainEngine, InteropConfig
from rollup_node.stages.interop.process.database import InteropDatabase
from rollup_node.stages.interop.process.engine_reader import EngineReader, LogBackfill
from rollup_node.stages.interop.process.store import InteropStore
from rollup_node.stages.interop.rounds import NONE, AddLogs, LogRange
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import ZERO_HASH
from rollup_node.tools.bench import synthetic_chain
from rollup_node.tools.bench.interop_rounds import ORIGIN, block_answers
from rollup_node.tools.bench.measure import Figure, show

CHAINS = (1, 2)
SECONDS = 1200.0
ALL_BLOCKS = len(CHAINS) * 7 * 24 * 1800
SECRET = b"\x42" * 32


class _Call(msgspec.Struct):
    id: int
    method: str
    params: list[str | bool]


class InstantEngine(asyncio.Protocol):
    """Answers batches of HTTP requests with what was made before: headers by number, the same receipts for all."""

    headers: list[bytes]
    receipts: bytes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._received = transport, b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end or len(body) < int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]):
            return
        self._received = b""
        calls = msgspec.json.decode(body, type=_Call | list[_Call])
        answer = self._answer(calls) if isinstance(calls, _Call) else b"[%b]" % b",".join(map(self._answer, calls))
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))

    def _answer(self, call: _Call) -> bytes:
        by_number = call.method == "eth_getBlockByNumber"
        result = self.headers[int(str(call.params[0]), 16)] if by_number else self.receipts
        return b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (call.id, result)


def serve(pipe: Connection, blocks: int, logs: int, size: int) -> None:
    """Make the blocks, send the port, and serve until the process is ended."""
    InstantEngine.headers = []
    parent, shown = ZERO_HASH, [{"address": to_hex(ORIGIN), "topics": [], "data": to_hex(bytes(size))}] * logs
    rollup = synthetic_chain.config()
    for number in range(blocks):
        parent, header, InstantEngine.receipts = block_answers(number, rollup.timestamp_of(number), parent, [[], shown])
        InstantEngine.headers.append(header)

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(InstantEngine, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


async def _seconds(url: str, blocks: int, folder: str) -> tuple[float, float]:
    """Return the wall and the CPU seconds of reading all blocks of both chains."""
    rollup = synthetic_chain.config()
    engine = ChainEngine(url, SECRET, 10.0)
    readers = {chain_id: EngineReader(engine) for chain_id in CHAINS}
    path, config = str(Path(folder) / "interop"), InteropConfig(dict.fromkeys(CHAINS, rollup), 0)
    InteropStore(path, config).close()
    database = InteropDatabase(path, config)

    async def write(change: AddLogs) -> object:
        return await database.run(lambda store: store.write(change))

    began, cpu = time.monotonic(), time.process_time()
    logs = LogBackfill(readers, dict.fromkeys(CHAINS, LogRange(0, blocks - 1, NONE)), write)
    try:
        while not logs.is_complete:
            await logs.step()
        return time.monotonic() - began, time.process_time() - cpu
    finally:
        await logs.close()
        for reader in readers.values():
            await reader.close()
        await database.close(1.0)


def main(words: Sequence[str] | None = None) -> int:
    """Print the figures; return 1 if one misses its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("blocks", 20_000), ("logs", 10), ("data", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args(words)
    context = multiprocessing.get_context("spawn")
    pipe, other = context.Pipe()
    server = context.Process(target=serve, args=(other, options.blocks, options.logs, options.data), daemon=True)
    server.start()
    try:
        url = f"http://127.0.0.1:{pipe.recv()}"
        with tempfile.TemporaryDirectory() as folder:
            wall, cpu = asyncio.run(_seconds(url, options.blocks, folder))
    finally:
        server.kill()
        server.join()
    blocks = len(CHAINS) * options.blocks
    figures = [
        Figure("logs of 7 days, 2 chains of 2 s", "s", (wall * ALL_BLOCKS / blocks,), SECONDS),
        Figure("blocks read", "1/s", (blocks / wall,)),
        Figure("a block, CPU", "ms", (1000 * cpu / blocks,)),
    ]
    return show("backfill of the interop process", figures)


if __name__ == "__main__":
    sys.exit(main())
