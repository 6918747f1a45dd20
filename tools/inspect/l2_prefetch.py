"""Prefetches L2 blocks from an engine in batches, so that a replay does not wait for a round trip per block."""

import asyncio
from collections.abc import Callable
from typing import Any

from rollup_node.stages.engine.calls.io.answers import Block
from rollup_node.stages.io.http.jsonrpc import EndpointError, JsonRpcClient, RpcFailure
from rollup_node.stages.protocol.answer_limits import AnswerLimit

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
"""Blocks that are read one by one after a batch that failed: the endpoint may refuse batches."""


class L2Prefetch:
    """State: the blocks that are held, by number, each with the time at which it was read, in seconds of `clock`; the
    batch that is being read; the last block that was asked for, and when."""

    def __init__(self, client: JsonRpcClient, clock: Callable[[], float]) -> None:
        self._client, self._clock = client, clock
        self._held: dict[int, tuple[float, Any]] = {}
        self._numbers = range(0)
        self._batch: asyncio.Task[None] | None = None
        self._last, self._last_at = -2, 0.0
        self._pause_until = 0

    async def take(self, number: int) -> Any | None:
        """The block, or None unless it was prefetched; waits for the batch that contains it."""
        if number in self._numbers and self._batch is not None:
            await self._batch
        read_at, block = self._held.pop(number, (0.0, None))
        if block is not None and self._clock() - read_at > HELD_SECONDS:
            self._held.clear()
            return None
        return block

    def follow(self, number: int) -> None:
        """A block was read; if it followed the one before, and soon, begins to read those behind it."""
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
        """Reads no more."""
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
            found = await self._client.batch(calls, Block | None, LIMIT, BATCH_SECONDS)
        except (EndpointError, RpcFailure):
            self._pause_until = numbers.start + PAUSE
            return
        now = self._clock()
        for number, block in zip(numbers, found, strict=True):
            if isinstance(block, Block):
                self._held[number] = now, block
