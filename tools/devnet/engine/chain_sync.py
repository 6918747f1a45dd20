"""Fetches the chain up to a block from another engine, as engines do from their peers.

Blocks by number in batches, which are checked, executed and inserted one by one."""

import asyncio
from collections.abc import Callable
from typing import Any

from rollup_node.stages.engine.process import engine_answers as answers
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.protocol.block_refs import BlockError
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import ZERO_HASH, Hash
from rollup_node.tools.devnet.engine.backend import Journal, L2Backend
from rollup_node.tools.devnet.engine.execution import InvalidBlock

BATCH = 16
MAX_BLOCKS = 1_000_000
"""A target farther above the head is not fetched."""
TIMEOUT = 10.0
RETRY_SECONDS = 0.2

log = Logger("engine")


class _InvalidChain(Exception):
    """The other engine's chain has an invalid block above the block `valid`."""

    def __init__(self, valid: Hash, reason: str) -> None:
        super().__init__(reason)
        self.valid = valid


class ChainSync:
    """One fetch at a time, to the last target.

    A target that cannot be reached is given up when it is replaced. `on_invalid` takes the hash of an invalid block,
    that of its last valid ancestor, and the reason; targets above one are invalid as well. `_fetched` is the number
    of the last block fetched: the next fetch begins above it."""

    def __init__(self, backend: L2Backend, journal: Journal | None, url: str) -> None:
        self._backend, self._journal = backend, journal
        self._client = JsonRpcClient(url, timeout=TIMEOUT, max_batch=BATCH)
        self.on_invalid: Callable[[Hash, Hash, str], object] = lambda *_: None
        self._target: Hash | None = None
        self._task: asyncio.Task[None] | None = None
        self._started_at = self._at = self._end = self._fetched = 0

    def begin(self, target: Hash) -> None:
        """Fetch the chain to a block, instead of to the target before."""
        self._target = target
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="chain sync")
            self._task.add_done_callback(_log_crash)

    def progress(self) -> dict[str, str] | bool:
        """eth_syncing."""
        if self._task is None or self._task.done():
            return False
        return {
            "startingBlock": hex(self._started_at),
            "currentBlock": hex(self._at),
            "highestBlock": hex(max(self._at, self._end)),
        }

    async def close(self) -> None:
        """End the fetch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._client.close()

    # --- the fetch -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        chain = self._backend.chain
        self._started_at = self._at = max(chain.head.number, self._fetched)
        while self._target is not None and chain.get(self._target) is None:
            try:
                if await self._fetch(self._target):
                    continue
            except (EndpointError, RpcFailure, BlockError) as error:
                log.warn("chain sync failed, retrying", error=str(error))
            await asyncio.sleep(RETRY_SECONDS)
        log.info("chain sync ended", block=self._at, fetched=self._at - self._started_at)

    async def _fetch(self, target: Hash) -> bool:
        """Fetch blocks until the target is there, or it is clear that it is invalid.

        False if the other engine does not have it, or has left its chain."""
        result = await self._client.call_typed(answers.Block | None, "eth_getBlockByHash", to_hex(target), True)
        end = None if result is None else answers.payload_of_block(result).block_number
        head = max(self._backend.chain.head.number, self._fetched)
        if end is None or end > head + MAX_BLOCKS:
            return False
        self._end = end
        try:
            complete = await self._fetch_range(min(head + 1, end), end)
        except _InvalidChain as invalid:
            return await self._give_up(target, end, invalid)
        return complete and (self._target != target or self._backend.chain.get(target) is not None)

    async def _fetch_range(self, number: int, end: int) -> bool:
        """Fetch the blocks from `number` to `end`, and those below from where the chains part.

        A target that comes meanwhile is as a rule a descendant of the present one: it is next."""
        first = self._backend.chain.genesis.number + 1
        while number <= end:
            payloads = await self._payloads(number, min(number + BATCH - 1, end))
            if not payloads:
                return False
            if self._backend.chain.get(payloads[0].parent_hash) is None:
                if number <= first:
                    raise _InvalidChain(ZERO_HASH, "it has another genesis block")
                number = max(first, number - BATCH)  # the chains part below
                continue
            if not await self._insert(payloads):
                return False
            number += len(payloads)
        return True

    async def _give_up(self, target: Hash, number: int, invalid: _InvalidChain) -> bool:
        """Return an invalid block was found on the other engine's chain; False if the target is not on that chain."""
        canonical = await self._payloads(number, number)
        if not canonical or canonical[0].block_hash != target:
            return False
        log.error("the chain to the target is invalid", target=to_hex(target), error=str(invalid))
        self.on_invalid(target, invalid.valid, str(invalid))
        if self._target == target:
            self._target = None
        return True

    async def _payloads(self, first: int, last: int) -> list[ExecutionPayload]:
        """Return the canonical blocks of a range, up to the first one that is missing."""
        calls = [("eth_getBlockByNumber", (hex(number), True)) for number in range(first, last + 1)]
        payloads: list[ExecutionPayload] = []
        result: list[Any] = await self._client.batch(calls, answers.Block | None)
        for block in result:
            if block is None or isinstance(block, RpcFailure):
                break
            payloads.append(answers.payload_of_block(block))
        return payloads

    async def _insert(self, payloads: list[ExecutionPayload]) -> bool:
        """Execute blocks; False if they are not one chain. Raises _InvalidChain."""
        chain = self._backend.chain
        for payload in payloads:
            parent = chain.get(payload.parent_hash)
            if parent is None:
                return False
            if chain.get(payload.block_hash) is None:
                try:
                    chain.insert(self._backend.check(parent, payload))
                except InvalidBlock as error:
                    self.on_invalid(payload.block_hash, parent.hash, str(error))
                    raise _InvalidChain(parent.hash, f"block {payload.block_number}: {error}") from None
                if self._journal is not None:
                    self._journal.insert(payload)
            self._at = self._fetched = payload.block_number
            await asyncio.sleep(0)  # the API answers meanwhile
        return True


def _log_crash(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.crash("chain sync ended", error)
