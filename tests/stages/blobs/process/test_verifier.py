"""Jobs of several requests share a compute task."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rollup_node.ipc.bus.task_dispatcher import TaskFailed
from rollup_node.stages.blobs.beacon_api import OfferedBlob
from rollup_node.stages.blobs.process.verifier import MAX_BLOBS_PER_TASK, MAX_TASKS, BlobVerifier
from rollup_node.stages.blobs.tasks import BlobsVerified, VerifyBlobs
from tests.support.processes.stage_runner import run_within

BLOB = OfferedBlob(b"", None, None)


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


def with_verifier(scenario: Callable[[BlobVerifier, HeldWorkers], Awaitable[None]]) -> None:
    async def main() -> None:
        workers = HeldWorkers()
        pool: Any = workers
        verifier = BlobVerifier(pool)
        try:
            await scenario(verifier, workers)
        finally:
            await verifier.close()

    run_within(10, main)


async def run_ready_tasks() -> None:
    """Lets all tasks run that can."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_jobs_that_wait_share_the_next_task_urgent_ones_first() -> None:
    async def scenario(verifier: BlobVerifier, workers: HeldWorkers) -> None:
        jobs = [
            asyncio.create_task(verifier.verify((name(number),), (BLOB,), urgent=number == 4)) for number in range(5)
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

    with_verifier(scenario)


def test_a_task_is_bounded_but_has_at_least_one_job() -> None:
    async def scenario(verifier: BlobVerifier, workers: HeldWorkers) -> None:
        sizes = (1, 1, MAX_BLOBS_PER_TASK + 1, 1, MAX_BLOBS_PER_TASK)
        for number, size in enumerate(sizes):
            asyncio.create_task(verifier.verify((name(number),), (BLOB,) * size, urgent=False))  # noqa: RUF006
        await run_ready_tasks()
        for index in range(len(sizes)):
            workers.tasks[index][1].set_result(BlobsVerified((), ()))
            await run_ready_tasks()
        assert [len(task.offered) for task, _ in workers.tasks] == list(sizes)

    with_verifier(scenario)


def test_a_failed_task_fails_all_its_jobs() -> None:
    async def scenario(verifier: BlobVerifier, workers: HeldWorkers) -> None:
        job = asyncio.create_task(verifier.verify((name(1),), (BLOB,), urgent=True))
        await run_ready_tasks()
        workers.tasks[0][1].set_exception(TaskFailed("3 workers died"))
        with pytest.raises(TaskFailed, match="3 workers died"):
            await job

    with_verifier(scenario)
