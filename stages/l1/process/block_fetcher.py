"""Fetches L1 blocks, each from one endpoint, and has compute workers verify them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import repeat
from typing import NamedTuple

from rollup_node.ipc.bus.task_dispatcher import TaskDispatcher, TaskFailed
from rollup_node.stages.io import tracing
from rollup_node.stages.io.http.endpoint_errors import AnswerTooLargeError, EndpointError, RpcFailure
from rollup_node.stages.io.task import cancel_all
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.filter import filter_of_rollup
from rollup_node.stages.l1.head_tracker import NewestBlock
from rollup_node.stages.l1.prefetch_window import Fetch, HeldAnswers, blocks_per_request
from rollup_node.stages.l1.process.client import BehindError, L1Endpoint, L1Endpoints, code_of, describe_error
from rollup_node.stages.l1.tasks import Invalid, NeedsReceipts, Verified, VerifyBlock, VerifyReceipts
from rollup_node.stages.l1.verify import InvalidDataError
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.answer_limits import L1_BLOCK, ORDINARY_L1_BLOCK, AnswerLimit, receipts_limit
from rollup_node.stages.protocol.types import Hash, L1Block

_FetchErrors = (EndpointError, RpcFailure, InvalidDataError, TaskFailed)
ReceiptsOf = Callable[[Hash, Sequence[Hash], AnswerLimit], Awaitable[bytes | None]]


class FetchResult(NamedTuple):
    """The result of a fetch: a block as each rollup sees it, a problem, or neither if there is no such block."""

    fetch: Fetch
    blocks: tuple[L1Block, ...] | None
    error: Problem | None
    endpoint: L1Endpoint | None = None


class BlockAnswer:
    """An answer about a block, which is forgotten once it is taken for a task: that has a copy.

    Nothing else may hold the body while the task waits for a worker, or the receipts for the endpoint."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def __len__(self) -> int:
        return len(self.body)

    def take(self) -> bytes:
        """Return the body for a task."""
        body, self.body = self.body, b""
        return body


class BlockFetcher:
    """Runs requests side by side, so that one that fails or is slow delays no other.

    `newest` has the answers of polls of the head. `on_done` is called whenever a fetch or a request has ended."""

    def __init__(
        self,
        config: L1Config,
        endpoints: L1Endpoints,
        newest: NewestBlock[L1Endpoint],
        workers: TaskDispatcher,
        on_done: Callable[[], None],
    ) -> None:
        self._config = config
        self._trust = config.trust_rpc
        self._l1_filters = tuple([filter_of_rollup(rollup, config.inbox_hashes) for rollup in config.rollups])
        self._endpoints, self._newest, self._workers, self._on_done = endpoints, newest, workers, on_done
        self._large = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._results: list[FetchResult] = []
        self._held = HeldAnswers()

    def __len__(self) -> int:
        """How many requests are running, or have ended and wait for `take_results`."""
        return len(self._tasks)

    @property
    def request_room(self) -> int:
        """How many more requests may run; pollers need no place, as their calls come first when one has ended."""
        return max(1, self._config.max_concurrency) - len(self)

    @property
    def block_room(self) -> int:
        """How many more blocks may be fetched, by the requests that may run and by the bytes that are held."""
        return min(self.request_room * self.request_size, self._held.room)

    @property
    def request_size(self) -> int:
        """How many blocks a request should ask for. Where a rate is given, more of them would only wait for it."""
        endpoint, config = self._endpoints.in_use, self._config
        if endpoint is None or not endpoint.takes_batches or config.rate_limit > 0:
            return 1
        return blocks_per_request(endpoint.record.latency, max(1, config.max_concurrency), config.max_batch)

    def start(self, fetches: Sequence[Fetch]) -> None:
        """Start fetches, those of several blocks as one request."""
        for fetch in fetches:
            self._held.hold(fetch.number)
            tracing.begin(tracing.ROOT, fetch.number)
        task = asyncio.create_task(self._run(fetches), name=f"L1 blocks from {fetches[0].number}")
        task.add_done_callback(lambda _: self._on_done())
        self._tasks.append(task)

    def take_results(self) -> list[FetchResult]:
        """Return the results of the fetches that have ended since the last call; a bug's exception is raised."""
        done = [task for task in self._tasks if task.done()]
        self._tasks = [task for task in self._tasks if not task.done()]
        for task in done:
            task.result()
        results, self._results = self._results, []
        return results

    async def close(self) -> None:
        await cancel_all(self._tasks)

    async def _run(self, fetches: Sequence[Fetch]) -> None:
        endpoint = self._endpoints.in_use if len(fetches) > 1 else None
        if endpoint is None or not endpoint.takes_batches or not await self._run_batch(endpoint, fetches):
            for fetch in fetches:
                await self._run_single(fetch)

    async def _run_single(self, fetch: Fetch) -> None:
        endpoint: L1Endpoint | None = None
        try:
            polled = self._newest.take(fetch.number)
            endpoint = self._endpoints.pick() if polled is None else polled.endpoint
            blocks = await self._fetch(endpoint, fetch.number, polled and BlockAnswer(polled.body))
            self._end(FetchResult(fetch, blocks, None, endpoint))
        except _FetchErrors as error:
            self._failed(endpoint, error, fetch)

    async def _run_batch(self, endpoint: L1Endpoint, fetches: Sequence[Fetch]) -> bool:
        """Fetch blocks by one request; False if its answer is too large."""
        try:
            bodies = await endpoint.block_bodies([fetch.number for fetch in fetches], ORDINARY_L1_BLOCK)
        except AnswerTooLargeError:
            return False
        except (EndpointError, RpcFailure) as error:
            self._failed(endpoint, error, *fetches)
            return True
        answers = [BlockAnswer(body) if isinstance(body, bytes) else body for body in bodies]
        del bodies
        await asyncio.gather(*map(self._take_answer, repeat(endpoint), fetches, answers))
        return True

    async def _take_answer(self, endpoint: L1Endpoint, fetch: Fetch, answer: BlockAnswer | RpcFailure | None) -> None:
        try:
            if isinstance(answer, RpcFailure):
                raise answer
            blocks = None if answer is None else await self._fetch(endpoint, fetch.number, answer)
            self._end(FetchResult(fetch, blocks, None, endpoint))
        except _FetchErrors as error:
            self._failed(endpoint, error, fetch)
        self._on_done()

    def _failed(self, endpoint: L1Endpoint | None, error: Exception, *fetches: Fetch) -> None:
        # A worker that dies is not the endpoint's failure.
        if endpoint is not None and not isinstance(error, TaskFailed):
            self._endpoints.failed(endpoint, error)
        code = Code.WORKER_FAILED if isinstance(error, TaskFailed) else code_of(error)
        for fetch in fetches:
            text = f"L1 block {fetch.number}: {describe_error(endpoint, error)}"
            self._end(FetchResult(fetch, None, Problem(code, "", text)))

    def _end(self, result: FetchResult) -> None:
        self._held.end(result.fetch.number)
        if result.blocks:
            tracing.end(tracing.ROOT, result.fetch.number, result.blocks[0].ref.hash, number=result.fetch.number)
        self._results.append(result)

    async def _fetch(self, endpoint: L1Endpoint, number: int, polled: BlockAnswer | None) -> tuple[L1Block, ...] | None:
        try:
            return await self._fetch_within(ORDINARY_L1_BLOCK, endpoint, number, polled)
        except AnswerTooLargeError:
            pass
        async with self._large:
            return await self._fetch_within(L1_BLOCK, endpoint, number)

    async def _fetch_within(
        self, limit: AnswerLimit, endpoint: L1Endpoint, number: int, answer: BlockAnswer | None = None
    ) -> tuple[L1Block, ...] | None:
        if answer is None:
            body = await endpoint.block_body(hex(number), limit)
            if body is None:
                return None
            answer = BlockAnswer(body)
            del body
        return await self._verified(limit, number, answer, endpoint.receipts_body)

    async def _verified(
        self, limit: AnswerLimit, number: int, answer: BlockAnswer, receipts_of: ReceiptsOf
    ) -> tuple[L1Block, ...]:
        """Return the block in a response. Raises InvalidDataError, BehindError where `receipts_of` has none of it."""
        self._held.hold(number, len(answer))
        result = await self._workers.run(VerifyBlock(number, answer.take(), self._trust, self._l1_filters))
        self._held.hold(number, len(answer))
        if isinstance(result, NeedsReceipts):
            block = result.block
            most = receipts_limit(block.gas_used)
            if limit is ORDINARY_L1_BLOCK:
                most = AnswerLimit(min(most.bytes, limit.bytes), min(most.values, limit.values))
            body = await receipts_of(block.header.hash, block.transaction_hashes, most)
            if body is None:
                raise BehindError("the endpoint does not have the receipts yet")
            receipts = BlockAnswer(body)
            del body
            self._held.hold(number, len(answer) + len(receipts))
            result = await self._workers.run(VerifyReceipts(block, receipts.take(), self._l1_filters))
        if isinstance(result, Verified):
            return result.take()
        raise InvalidDataError(result.reason if isinstance(result, Invalid) else "unexpected result from a worker")
