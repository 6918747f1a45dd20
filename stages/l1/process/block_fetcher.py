"""Fetches single L1 blocks, each from the archive or from one endpoint, and has compute workers verify them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from rollup_node.ipc.bus.task_dispatcher import TaskDispatcher, TaskFailed
from rollup_node.stages.io.jsonrpc import AnswerTooLargeError, EndpointError, RpcFailure
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.filter import filter_of_rollup
from rollup_node.stages.l1.newest_block import NewestBlock
from rollup_node.stages.l1.prefetch_window import Fetch
from rollup_node.stages.l1.process.block_archive import BlockArchive
from rollup_node.stages.l1.process.client import L1Endpoint, L1Endpoints, describe_error
from rollup_node.stages.l1.process.failures import BehindError, code_of
from rollup_node.stages.l1.tasks import Invalid, NeedsReceipts, Verified, VerifyBlock, VerifyReceipts
from rollup_node.stages.l1.verify import InvalidDataError, VerifiedBlock
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.answer_limits import L1_BLOCK, ORDINARY_L1_BLOCK, AnswerLimit, receipts_limit
from rollup_node.stages.protocol.hex_encoding import to_quantity
from rollup_node.stages.protocol.types import L1Block

ReceiptsOf = Callable[[VerifiedBlock, AnswerLimit], Awaitable[bytes | None]]


class FetchResult(NamedTuple):
    """The result of a fetch from an endpoint: a block, an error with its code in front, or neither if it has no such
    block."""

    fetch: Fetch
    block: L1Block | None
    error: str | None
    endpoint: L1Endpoint | None = None


class BlockFetcher:
    """Runs fetches side by side, so that one that fails or is slow delays no other. `newest` has the answers of polls
    of the head, `archive` the blocks that are not asked for. `on_done` is called whenever a fetch has ended."""

    def __init__(
        self,
        config: L1Config,
        endpoints: L1Endpoints,
        newest: NewestBlock[L1Endpoint],
        workers: TaskDispatcher,
        on_done: Callable[[], None],
        archive: BlockArchive | None = None,
    ) -> None:
        self._trust, self._l1_filter = config.trust_rpc, filter_of_rollup(config.rollup, config.inbox_hashes)
        self._endpoints, self._newest, self._workers, self._on_done = endpoints, newest, workers, on_done
        self._archive, self._large = archive, asyncio.Lock()
        self._tasks: list[asyncio.Task[FetchResult]] = []

    def __len__(self) -> int:
        """How many fetches are running, or have ended and wait for `take_results`."""
        return len(self._tasks)

    def start(self, fetch: Fetch) -> None:
        """Starts a fetch."""
        task = asyncio.create_task(self._run(fetch), name=f"L1 block {fetch.number}")
        task.add_done_callback(lambda _: self._on_done())
        self._tasks.append(task)

    def take_results(self) -> list[FetchResult]:
        """The results of the fetches that have ended since the last call. An exception of a bug is raised here."""
        done = [task for task in self._tasks if task.done()]
        self._tasks = [task for task in self._tasks if not task.done()]
        return [task.result() for task in done]

    async def close(self) -> None:
        """Cancels all fetches."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, fetch: Fetch) -> FetchResult:
        endpoint: L1Endpoint | None = None
        try:
            archived = await self._from_archive(fetch)
            if archived is not None:
                return FetchResult(fetch, archived, None)
            polled = self._newest.take(fetch.number)
            endpoint = self._endpoints.pick() if polled is None else polled.endpoint
            block = await self._fetch(endpoint, fetch.number, polled and polled.body)
            return FetchResult(fetch, block, None, endpoint)
        except (EndpointError, RpcFailure, InvalidDataError, TaskFailed) as error:
            # A worker that dies is not the endpoint's failure.
            if endpoint is not None and not isinstance(error, TaskFailed):
                self._endpoints.failed(endpoint, error)
            code = Code.WORKER_FAILED if isinstance(error, TaskFailed) else code_of(error)
            text = f"L1 block {fetch.number}: {describe_error(endpoint, error)}"
            return FetchResult(fetch, None, code.before(text))

    async def _from_archive(self, fetch: Fetch) -> L1Block | None:
        """The block if the archive has it. Once blocks have contradicted each other, the endpoints say which are
        canonical."""
        archive = self._archive
        found = None if archive is None or fetch.generation else await archive.block(fetch.number)
        if archive is None or found is None:
            return None

        async def receipts_of(block: VerifiedBlock, limit: AnswerLimit) -> bytes | None:
            return await archive.receipts(block.header.hash, limit)

        try:
            verified, _ = await self._verified(ORDINARY_L1_BLOCK, fetch.number, found.body, receipts_of)
            if verified is not None and verified.header.hash != found.hash:
                raise InvalidDataError(f"it is block 0x{verified.header.hash.hex()}")
            return verified
        except InvalidDataError as error:
            archive.damaged(found.hash, str(error))
            return None

    async def _fetch(self, endpoint: L1Endpoint, number: int, polled: bytes | None) -> L1Block | None:
        try:
            return await self._fetch_within(ORDINARY_L1_BLOCK, endpoint, number, polled)
        except AnswerTooLargeError:
            pass
        async with self._large:
            return await self._fetch_within(L1_BLOCK, endpoint, number)

    async def _fetch_within(
        self, limit: AnswerLimit, endpoint: L1Endpoint, number: int, polled: bytes | None = None
    ) -> L1Block | None:
        body = polled or await endpoint.block_body(to_quantity(number), limit)
        if body is None:
            return None

        async def receipts_of(block: VerifiedBlock, most: AnswerLimit) -> bytes | None:
            return await endpoint.receipts_body(block.header.hash, block.transaction_hashes, most)

        block, receipts = await self._verified(limit, number, body, receipts_of)
        if block is None:
            raise BehindError("the endpoint does not have the receipts yet")
        if self._archive is not None and limit is ORDINARY_L1_BLOCK:
            await self._archive.keep(block.header, body, receipts)
        return block

    async def _verified(
        self, limit: AnswerLimit, number: int, body: bytes, receipts_of: ReceiptsOf
    ) -> tuple[L1Block | None, bytes | None]:
        """The block in a response and the receipts that it needed; no block if these are not there. Raises
        InvalidDataError, and what `receipts_of` raises."""
        receipts = None
        result = await self._workers.run(VerifyBlock(number, body, self._trust, self._l1_filter))
        if isinstance(result, NeedsReceipts):
            block = result.block
            most = receipts_limit(block.gas_used)
            if limit is ORDINARY_L1_BLOCK:
                most = AnswerLimit(min(most.bytes, limit.bytes), min(most.values, limit.values))
            receipts = await receipts_of(block, most)
            if receipts is None:
                return None, None
            result = await self._workers.run(VerifyReceipts(block, receipts, self._l1_filter))
        if isinstance(result, Verified):
            return result.block, receipts
        raise InvalidDataError(result.reason if isinstance(result, Invalid) else "unexpected result from a worker")
