"""Reads verified blocks of a chain from its execution engine: several at once, within bounds of bytes [VR8, VR10].

So it does the logs of before the first round, of all chains at once, which are written in order."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from rollup_node.stages.interop.block_content import (
    ContentError,
    VerifiedHeader,
    block_content,
    verified_header,
)
from rollup_node.stages.interop.config import ChainEngine
from rollup_node.stages.interop.rounds import AddLogs, ChainBlock, LogRange
from rollup_node.stages.io.http.credentials import RequestHeaders
from rollup_node.stages.io.http.endpoint_errors import AnswerTooLargeError, EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.io.task import cancel_all
from rollup_node.stages.protocol.answer_limits import AnswerLimit, receipts_limit
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.headers import HeaderJson
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.texts import duration
from rollup_node.stages.protocol.types import Hash

MAX_BLOCKS = 128
"""Blocks of one read."""
BATCH_LIMIT = AnswerLimit(32 << 20, 4_000_000)
"""Of the receipts of several blocks; those of one block may be longer, by its gas."""
IN_FLIGHT = 3
"""Reads of a chain's logs at a time, each of MAX_BLOCKS blocks."""

_Receipts = list[msgspec.Raw]


class EngineReader:
    """The reads of one chain. All raise TemporaryError when the engine does not answer, or not as it should."""

    def __init__(self, engine: ChainEngine) -> None:
        self._rpc = JsonRpcClient(
            engine.url,
            timeout=engine.timeout,
            headers=RequestHeaders(engine.url, engine.jwt_secret),
            max_batch=MAX_BLOCKS,
            long_answers=True,
            direct=True,
        )

    async def close(self) -> None:
        await self._rpc.close()

    async def block_hash(self, number: int) -> Hash | None:
        """Return the hash of the canonical block of a number, None if there is none."""
        (header,) = await self._headers(number, number)
        return None if header is None else header.ref.hash

    async def blocks(self, first: int, last: int) -> list[ChainBlock]:
        """Return the canonical blocks of a range, at most MAX_BLOCKS of them."""
        headers = [header for header in await self._headers(first, last) if header is not None]
        if len(headers) <= last - first:
            raise self._error(f"it does not have all of the blocks {first} to {last}")
        receipts = await self._receipts([header for header in headers if header.has_logs])
        try:
            # In a thread: the hashes of large blocks take longer than the process may be silent.
            return await asyncio.to_thread(
                lambda: [block_content(header, receipts.get(header.ref.hash, ())) for header in headers]
            )
        except ContentError as error:
            raise self._error(error) from None

    async def _headers(self, first: int, last: int) -> list[VerifiedHeader | None]:
        calls = [("eth_getBlockByNumber", (hex(number), False)) for number in range(first, last + 1)]
        answers = await self._batch(calls, HeaderJson | None)
        try:
            return [
                None if answer is None else verified_header(answer, number)
                for number, answer in enumerate(answers, first)
            ]
        except ContentError as error:
            raise self._error(error) from None

    async def _receipts(self, headers: Sequence[VerifiedHeader]) -> dict[Hash, Sequence[msgspec.Raw]]:
        """Return the receipts of blocks by hash; those of long answers are asked for again, half of them at a time."""
        if not headers:
            return {}
        calls = [("eth_getBlockReceipts", (to_hex(header.ref.hash),)) for header in headers]
        limit = receipts_limit(headers[0].header.gas_used) if len(headers) == 1 else BATCH_LIMIT
        try:
            answers = await self._batch(calls, _Receipts | None, limit)
        except AnswerTooLargeError as error:
            if len(headers) == 1:
                raise self._error(error) from None
            half = len(headers) // 2
            return {**await self._receipts(headers[:half]), **await self._receipts(headers[half:])}
        for header, answer in zip(headers, answers, strict=True):
            if answer is None:
                raise self._error(f"it has no receipts of block {header.ref}")
        return dict(zip((header.ref.hash for header in headers), answers, strict=True))

    async def _batch(self, calls: list[Any], shape: Any, limit: AnswerLimit | None = None) -> list[Any]:
        """Return the results of calls. Raises AnswerTooLargeError besides."""
        try:
            answers = await self._rpc.batch(calls, shape, limit)
        except AnswerTooLargeError:
            raise
        except (EndpointError, RpcFailure) as error:
            raise self._error(error) from None
        for answer in answers:
            if isinstance(answer, RpcFailure):
                raise self._error(f"{calls[0][0]}: {answer}")
        return answers

    def _error(self, what: object) -> TemporaryError:
        text = str(what).removeprefix(f"{self._rpc.name}: ")
        return TemporaryError(f"execution engine {self._rpc.name}: {text}")


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
        await cancel_all(read for chain in self._chains for read in chain.reads)


class _ChainBackfill:
    """The `reads` of one chain, in the order of its blocks; `done` is how many are written."""

    def __init__(
        self, chain_id: int, reader: EngineReader, logs: LogRange, write: Callable[[AddLogs], Awaitable[object]]
    ) -> None:
        self._chain_id, self._reader, self._write = chain_id, reader, write
        self._next, self._last, self._keep = logs.first, logs.last, logs.keep
        self._parent: Hash | None = None
        self.done = 0
        self.reads: deque[asyncio.Task[list[ChainBlock]]] = deque()

    async def step(self) -> None:
        """Write what the first of the reads has, whose blocks follow each other and those written in this run."""
        while len(self.reads) < IN_FLIGHT and self._next <= self._last:
            last = min(self._next + MAX_BLOCKS - 1, self._last)
            self.reads.append(asyncio.create_task(self._reader.blocks(self._next, last)))
            self._next = last + 1
        if not self.reads:
            return
        blocks = [block.logs for block in await self.reads.popleft()]
        for block in blocks:
            if self._parent not in (None, block.block.parent_hash):
                text = f"chain {self._chain_id}: block {block.block} does not follow the one before it"
                raise TemporaryError(text)
            self._parent = block.block.hash
        await self._write(AddLogs(self._chain_id, tuple(blocks), self._keep))
        self._keep = blocks[-1].block.number
        self.done += len(blocks)
