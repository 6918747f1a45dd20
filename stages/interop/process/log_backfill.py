"""Reads the logs of before the first round, all chains at once, and writes them in order [VR10]."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

from rollup_node.stages.interop.block_content import BlockContent
from rollup_node.stages.interop.process.engine_reader import MAX_BLOCKS, EngineReader
from rollup_node.stages.interop.rounds import AddLogs, LogRange
from rollup_node.stages.io.task import cancel_all
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.texts import duration
from rollup_node.stages.protocol.types import Hash

IN_FLIGHT = 3
"""Reads of a chain at a time, each of MAX_BLOCKS blocks."""


class LogBackfill:
    """The ranges of all chains; `write` puts blocks on disk. `clock` is monotonic.

    After an error it is closed, and another one goes on with what is on disk."""

    def __init__(
        self,
        readers: Mapping[int, EngineReader],
        ranges: Mapping[int, LogRange],
        write: Callable[[AddLogs], Awaitable[object]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._chains = [
            _ChainBackfill(chain_id, readers[chain_id], logs, write)
            for chain_id, logs in ranges.items()
            if logs.first <= logs.last
        ]
        self._clock, self._began_at = clock, clock()
        self.total = sum(logs.last - logs.first + 1 for logs in ranges.values() if logs.first <= logs.last)

    @property
    def done(self) -> int:
        """How many blocks are written, of `total`."""
        return sum(chain.done for chain in self._chains)

    @property
    def is_complete(self) -> bool:
        return self.done == self.total

    def progress(self) -> str:
        """Return how far it is, and how long the rest takes at the speed so far."""
        text = f"the logs of {self.done:,} of {self.total:,} blocks are read ({100 * self.done / self.total:.1f} %)"
        seconds = self._clock() - self._began_at
        return f"{text}, {duration(seconds / self.done * (self.total - self.done))} left" if self.done else text

    async def step(self) -> None:
        """Write the next blocks of each chain. Raises TemporaryError of a read, or of a chain that has changed."""
        results = await asyncio.gather(*(chain.step() for chain in self._chains), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def close(self) -> None:
        """Cancel the reads."""
        for chain in self._chains:
            await chain.close()


class _ChainBackfill:
    """The reads of one chain, in the order of its blocks."""

    def __init__(
        self, chain_id: int, reader: EngineReader, logs: LogRange, write: Callable[[AddLogs], Awaitable[object]]
    ) -> None:
        self._chain_id, self._reader, self._write, self._last = chain_id, reader, write, logs.last
        self._first = self._next = logs.first
        self._keep, self._written = logs.keep, logs.first - 1
        self._parent: Hash | None = None
        self._reads: deque[asyncio.Task[list[BlockContent]]] = deque()

    @property
    def done(self) -> int:
        return self._written - self._first + 1

    async def step(self) -> None:
        """Write what the first of the reads has."""
        while len(self._reads) < IN_FLIGHT and self._next <= self._last:
            last = min(self._next + MAX_BLOCKS - 1, self._last)
            self._reads.append(asyncio.create_task(self._reader.blocks(self._next, last)))
            self._next = last + 1
        if not self._reads:
            return
        blocks = await self._reads.popleft()
        self._check(blocks)
        await self._write(AddLogs(self._chain_id, tuple(block.logs for block in blocks), self._keep))
        self._keep = self._written = blocks[-1].logs.block.number
        self._parent = blocks[-1].logs.block.hash

    def _check(self, blocks: list[BlockContent]) -> None:
        """Check that blocks follow each other, and those that were written in this run."""
        parent = self._parent
        for block in blocks:
            ref = block.logs.block
            if parent is not None and ref.parent_hash != parent:
                raise TemporaryError(f"chain {self._chain_id}: block {ref} does not follow the one before it")
            parent = ref.hash

    async def close(self) -> None:
        """Cancel the reads."""
        await cancel_all(self._reads)
