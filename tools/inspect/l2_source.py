"""The known L2 blocks that `replay` compares with: from an engine's eth namespace, asked ahead, or from a file."""

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import orjson

from rollup_node.node.checks.execution import engine_client
from rollup_node.node.options.given_files import regular_file
from rollup_node.stages.engine.process.engine_answers import Block, payload_of_block
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.answer_limits import AnswerLimit
from rollup_node.stages.protocol.block_refs import BlockError, payload_from_block_json, payload_of_header
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.headers import HeaderError, header_hash
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.tools.recorded.encoded_blocks import decode_header

TIMEOUT = 10.0


class SourceError(ValueError):
    """The file of L2 blocks is unreadable or malformed."""


class BlockSource(Protocol):
    """L2 blocks by number."""

    async def payload(self, number: int) -> ExecutionPayload | None:
        """Return the block, or None if the source has none of this number.

        Raises TemporaryError if the source is unreachable or its block malformed."""

    async def close(self) -> None:
        """Close connections."""


class EngineSource:
    """Blocks of an execution engine by JSON-RPC, with tokens of `jwt_secret` if there is one.

    When one block is asked for after the other, the next ones are prefetched."""

    def __init__(self, url: str, jwt_secret: bytes | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = JsonRpcClient(url) if jwt_secret is None else engine_client(url, jwt_secret, TIMEOUT)
        self._prefetch = L2Prefetch(self._client, clock)

    async def payload(self, number: int) -> ExecutionPayload | None:
        try:
            block = await self._prefetch.take(number)
            if block is None:
                block = await self._client.call_typed(Block | None, METHOD, hex(number), True)
            if block is None:
                return None
            self._prefetch.follow(number)
            return payload_of_block(block)
        except (EndpointError, RpcFailure, BlockError) as error:
            raise TemporaryError(f"L2 block {number}: {error}") from None

    async def close(self) -> None:
        await self._prefetch.stop()
        await self._client.close()


class FileSource:
    """Blocks of a JSON file.

    A list of eth_getBlock objects with full transactions, or of objects with `header_rlp` and `txs` in hex."""

    def __init__(self, blocks: dict[int, ExecutionPayload]) -> None:
        self._blocks = blocks

    @classmethod
    def read(cls, path: Path) -> "FileSource":
        """Read a file. Raises SourceError if it is unreadable or malformed."""
        try:
            with regular_file(path) as file:
                entries = orjson.loads(file.read())
        except OSError as error:
            raise SourceError(f"cannot read {path}: {error.strerror}") from None
        except orjson.JSONDecodeError as error:
            raise SourceError(f"{path} is not JSON: {error}") from None
        if not isinstance(entries, list) or not entries:
            raise SourceError(f"{path}: expected a list of blocks")
        payloads = [_from_entry(path, index, entry) for index, entry in enumerate(entries)]
        return cls({payload.block_number: payload for payload in payloads})

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the blocks, sorted."""
        return sorted(self._blocks)

    async def payload(self, number: int) -> ExecutionPayload | None:
        return self._blocks.get(number)

    async def close(self) -> None:
        """Nothing is open."""


def _from_entry(path: Path, index: int, entry: Any) -> ExecutionPayload:
    try:
        if isinstance(entry, dict) and "header_rlp" in entry:
            header = decode_header(_hex(entry["header_rlp"]))
            transactions = tuple(_hex(raw) for raw in entry["txs"])
            return payload_of_header(header, header_hash(header), transactions)
        return payload_from_block_json(entry)
    except (HexError, HeaderError, BlockError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"{path}: block {index} of the list: {error}") from None


def _hex(text: str) -> bytes:
    return from_hex(text if text.startswith("0x") else "0x" + text)


METHOD = "eth_getBlockByNumber"
MOST = 20
"""Blocks of a batch, and at most so many more are held while it is read."""
LIMIT = AnswerLimit(16 << 20, 500_000)
"""What the answer to a batch may hold. The blocks of longer answers are read one by one, each with its own limit."""
BATCH_SECONDS = 10.0
HELD_SECONDS = 5.0
"""After this time a block is read again: the newest blocks of a chain may be replaced."""
BLOCK_SECONDS = HELD_SECONDS / MOST
"""Where blocks are asked for more slowly, nothing is prefetched: much of it would be too old."""
PAUSE = 1_000
"""Blocks that are read one by one after a batch that failed."""


class L2Prefetch:
    """State: the blocks that are held, by number, each with the time at which it was read, in seconds of `clock`.

    The batch that is being read; the last block that was asked for, and when."""

    def __init__(self, client: JsonRpcClient, clock: Callable[[], float]) -> None:
        self._client, self._clock = client, clock
        self._held: dict[int, tuple[float, Any]] = {}
        self._numbers = range(0)
        self._batch: asyncio.Task[None] | None = None
        self._last, self._last_at = -2, 0.0
        self._pause_until = 0

    async def take(self, number: int) -> Any | None:
        """Return the block, or None unless it was prefetched; waits for the batch that contains it."""
        if number in self._numbers and self._batch is not None:
            await self._batch
        read_at, block = self._held.pop(number, (0.0, None))
        if block is not None and self._clock() - read_at > HELD_SECONDS:
            self._held.clear()
            return None
        return block

    def follow(self, number: int) -> None:
        """Note that a block was read; if it followed the one before, and soon, begin to read those behind it."""
        now = self._clock()
        is_next, is_soon = number == self._last + 1, now - self._last_at < BLOCK_SECONDS
        self._last, self._last_at = number, now
        if not is_next:
            self._forget()
        is_reading = self._batch is not None and not self._batch.done()
        if is_next and is_soon and not is_reading and number >= self._pause_until and len(self._held) <= MOST // 2:
            first = max(self._held, default=number) + 1
            self._numbers = range(first, first + MOST)
            self._batch = asyncio.create_task(self._read(self._numbers))

    async def stop(self) -> None:
        """Read no more."""
        if self._batch is not None:
            self._batch.cancel()
            await asyncio.wait([self._batch])

    def _forget(self) -> None:
        self._held.clear()
        self._numbers = range(0)
        if self._batch is not None:
            self._batch.cancel()

    async def _read(self, numbers: range) -> None:
        """Blocks that the engine does not have are left out."""
        calls = [(METHOD, (hex(number), True)) for number in numbers]
        try:
            result = await self._client.batch(calls, Block | None, LIMIT, BATCH_SECONDS)
        except (EndpointError, RpcFailure):
            self._pause_until = numbers.start + PAUSE
            return
        now = self._clock()
        for number, block in zip(numbers, result, strict=True):
            if isinstance(block, Block):
                self._held[number] = now, block
