"""Has compute workers verify blobs, of several requests at once: a combination costs little more for many."""

import asyncio
from typing import NamedTuple

from rollup_node.ipc.bus.task_dispatcher import TaskDispatcher
from rollup_node.stages.blobs.beacon_api import OfferedBlob
from rollup_node.stages.blobs.pending_requests import PendingRequest
from rollup_node.stages.blobs.tasks import BlobsVerified, VerifyBlobs
from rollup_node.stages.io.task import cancel_all
from rollup_node.stages.protocol.types import Hash

MAX_TASKS = 2
MAX_BLOBS_PER_TASK = 24
GATHERED_BLOBS, GATHERED_JOBS = 6, 3
"""Jobs that may wait are begun once there are so many blobs, or jobs; fewer jobs than fetches may run."""


class _Job(NamedTuple):
    """`request` says how soon the blobs are needed, which may change while the job waits."""

    wanted: tuple[Hash, ...]
    offered: tuple[OfferedBlob, ...]
    request: PendingRequest
    result: asyncio.Future[BlobsVerified]


class BlobVerifier:
    """Gathers jobs while MAX_TASKS tasks run, and while all of them may wait."""

    def __init__(self, workers: TaskDispatcher) -> None:
        self._workers = workers
        self._waiting: list[_Job] = []
        self._running: set[asyncio.Task[None]] = set()

    async def verify(
        self, wanted: tuple[Hash, ...], offered: tuple[OfferedBlob, ...], request: PendingRequest
    ) -> BlobsVerified:
        """Return the authentic blobs, those of other jobs perhaps among them. Raises TaskFailed."""
        result: asyncio.Future[BlobsVerified] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Job(wanted, offered, request, result))
        self.start_due()
        return await result

    async def close(self) -> None:
        """Cancel the running tasks."""
        await cancel_all(self._running)

    def start_due(self) -> None:
        """Start the tasks that are due; to be called when the urgency of a job has changed."""
        while len(self._running) < MAX_TASKS and self._is_due():
            task = asyncio.create_task(self._run(self._next_jobs()))
            self._running.add(task)
            task.add_done_callback(self._on_done)

    def _is_due(self) -> bool:
        if len(self._waiting) >= GATHERED_JOBS or sum(len(job.offered) for job in self._waiting) >= GATHERED_BLOBS:
            return True
        return any(not job.request.may_wait for job in self._waiting)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            self.start_due()

    def _next_jobs(self) -> list[_Job]:
        """Return the jobs of the next task: at least one, urgent ones first."""
        # Skips cancelled jobs, but keeps one, as a task has at least one.
        self._waiting = [job for job in self._waiting if not job.result.done()] or self._waiting[:1]
        self._waiting.sort(key=lambda job: not job.request.urgent)
        jobs, blobs = [self._waiting.pop(0)], 0
        while self._waiting:
            blobs += len(jobs[-1].offered)
            if blobs + len(self._waiting[0].offered) > MAX_BLOBS_PER_TASK:
                break
            jobs.append(self._waiting.pop(0))
        return jobs

    async def _run(self, jobs: list[_Job]) -> None:
        wanted = tuple({item: None for job in jobs for item in job.wanted})
        offered = tuple(item for job in jobs for item in job.offered)
        try:
            verified: BlobsVerified | Exception = await self._workers.run(VerifyBlobs(wanted, offered))
        except Exception as error:
            verified = error
        for job in jobs:
            if job.result.done():
                continue
            if isinstance(verified, Exception):
                job.result.set_exception(verified)
            else:
                job.result.set_result(verified)
