"""Jobs of several requests share a compute task."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rollup_node.ipc.bus.task_dispatcher import TaskFailed
from rollup_node.stages.blobs.beacon_api import OfferedBlob
from rollup_node.stages.blobs.pending_requests import PendingRequest
from rollup_node.stages.blobs.process.verifier import (
    GATHERED_BLOBS,
    GATHERED_JOBS,
    MAX_BLOBS_PER_TASK,
    MAX_TASKS,
    BlobVerifier,
)
from rollup_node.stages.blobs.tasks import BlobsVerified, VerifyBlobs
from rollup_node.stages.protocol.types import L1BlockRef

BLOB = OfferedBlob(b"", None, None)


def needed(urgent: bool = False, may_wait: bool = False) -> PendingRequest:
    """Return a request that says how soon the blobs of a job are needed."""
    return PendingRequest((b"", ()), urgent, 0.0, L1BlockRef(b"", 1, b"", 0), (), may_wait)


class HeldWorkers:
    """Completes each task when the test says so."""

    def __init__(self) -> None:
        self.tasks: list[tuple[VerifyBlobs, asyncio.Future[BlobsVerified]]] = []

    async def run(self, task: VerifyBlobs) -> BlobsVerified:
        result: asyncio.Future[BlobsVerified] = asyncio.get_running_loop().create_future()
        self.tasks.append((task, result))
        return await result


def name(number: int) -> bytes:
    return bytes([number]) * 32


@asynccontextmanager
async def running_verifier() -> AsyncIterator[tuple[BlobVerifier, HeldWorkers]]:
    workers = HeldWorkers()
    pool: Any = workers
    verifier = BlobVerifier(pool)
    try:
        yield verifier, workers
    finally:
        await verifier.close()


async def run_ready_tasks() -> None:
    """Lets all tasks run that can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_jobs_that_wait_share_the_next_task_urgent_ones_first() -> None:
    async with running_verifier() as (verifier, workers):
        jobs = [
            asyncio.create_task(verifier.verify((name(number),), (BLOB,), needed(urgent=number == 4)))
            for number in range(5)
        ]
        await run_ready_tasks()
        assert [task.wanted for task, _ in workers.tasks] == [(name(0),), (name(1),)]
        assert len(workers.tasks) == MAX_TASKS
        verified = BlobsVerified((), ("none",))
        workers.tasks[0][1].set_result(verified)
        await run_ready_tasks()
        assert workers.tasks[2][0].wanted == (name(4), name(2), name(3))
        for _, result in workers.tasks[1:]:
            result.set_result(verified)
        assert await asyncio.gather(*jobs) == [verified] * 5


async def test_a_task_is_bounded_but_has_at_least_one_job() -> None:
    async with running_verifier() as (verifier, workers):
        sizes = (1, 1, MAX_BLOBS_PER_TASK + 1, 1, MAX_BLOBS_PER_TASK)
        for number, size in enumerate(sizes):
            asyncio.create_task(verifier.verify((name(number),), (BLOB,) * size, needed()))  # noqa: RUF006
        await run_ready_tasks()
        for index in range(len(sizes)):
            workers.tasks[index][1].set_result(BlobsVerified((), ()))
            await run_ready_tasks()
        assert [len(task.offered) for task, _ in workers.tasks] == list(sizes)


async def test_a_failed_task_fails_all_its_jobs() -> None:
    async with running_verifier() as (verifier, workers):
        job = asyncio.create_task(verifier.verify((name(1),), (BLOB,), needed(urgent=True)))
        await run_ready_tasks()
        workers.tasks[0][1].set_exception(TaskFailed("3 workers died"))
        with pytest.raises(TaskFailed, match="3 workers died"):
            await job


async def test_jobs_that_may_wait_are_gathered_until_one_of_them_is_needed() -> None:
    async with running_verifier() as (verifier, workers):
        requests = [needed(may_wait=True) for _ in range(GATHERED_JOBS - 1)]
        jobs = [
            asyncio.create_task(verifier.verify((name(number),), (BLOB,), item)) for number, item in enumerate(requests)
        ]
        await run_ready_tasks()
        verifier.start_due()
        assert workers.tasks == []
        requests[1].may_wait = False
        verifier.start_due()
        await run_ready_tasks()
        assert [task.wanted for task, _ in workers.tasks] == [(name(0), name(1))]
        workers.tasks[0][1].set_result(BlobsVerified((), ()))
        await asyncio.gather(*jobs)


@pytest.mark.parametrize(("jobs", "blobs"), [(GATHERED_JOBS, 1), (2, GATHERED_BLOBS // 2), (1, GATHERED_BLOBS)])
async def test_enough_blobs_or_jobs_wait_no_longer(jobs: int, blobs: int) -> None:
    async with running_verifier() as (verifier, workers):
        waiting = []
        for number in range(jobs):
            assert workers.tasks == []
            job = verifier.verify((name(number),), (BLOB,) * blobs, needed(may_wait=True))
            waiting.append(asyncio.create_task(job))
            await run_ready_tasks()
        assert [len(task.offered) for task, _ in workers.tasks] == [jobs * blobs]
        workers.tasks[0][1].set_result(BlobsVerified((), ()))
        await asyncio.gather(*waiting)
