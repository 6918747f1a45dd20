"""The profiles of one process, and of a whole toy node."""

import asyncio
import contextlib
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from rollup_node.node.runtime.process_profiles import LOOK_SECONDS, ProcessProfiles
from rollup_node.node.system.profiling import ProfilingSettings
from rollup_node.stages.io.profiling.profile import ProfileRequest
from rollup_node.stages.io.profiling.profile_files import ProfileFiles
from rollup_node.stages.io.task import cancel_all
from tests.support.processes.toy_harness import PROCESSES, StartNode
from tests.support.rpc.pprof_decoder import decode


async def test_requests_are_answered_once(tmp_path: Path) -> None:
    files = ProfileFiles(tmp_path)
    files.request(ProfileRequest(1, "goroutine", 0.0))

    profiles = ProcessProfiles(ProfilingSettings(is_served=True), tmp_path, "l1")
    task = asyncio.create_task(profiles.serve(), name="profiles")
    await asyncio.sleep(0.1)
    files.request(ProfileRequest(2, "goroutine", 0.05))
    async with asyncio.timeout(10):
        while (answer := files.read_answer(2, "l1")) is None:
            await asyncio.sleep(0.01)
    assert any(dict(sample.labels).get("task") == "profiles" for sample in answer.samples)
    assert files.read_answer(1, "l1") is None, "a request from before the start is not answered"
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def allocated(depth: int, count: int) -> list[object]:
    """Allocations at the end of a deep stack."""
    return allocated(depth - 1, count) if depth else [object() for _ in range(count)]


def test_many_allocations_leave_the_loop_its_heartbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog counts CPU time between heartbeats, of which 10 s end a process: the profile is made by another
    thread."""
    files, gaps, makers = ProfileFiles(tmp_path), [0.0], []
    write = ProcessProfiles._write

    def note_thread(*arguments: Any) -> None:
        makers.append(threading.current_thread())
        write(*arguments)

    monkeypatch.setattr(ProcessProfiles, "_write", note_thread)

    async def beat() -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(0.01)
            now = time.process_time()
            gaps.append(now - last)
            last = now

    async def scenario() -> list[object]:
        profiles = ProcessProfiles(ProfilingSettings(is_served=True), tmp_path, "l1")
        tasks = [asyncio.create_task(profiles.serve())]
        await asyncio.sleep(0)
        files.request(ProfileRequest(1, "heap", 2.0))
        async with asyncio.timeout(40):
            while not tracemalloc.is_tracing():
                await asyncio.sleep(0.01)
            kept = allocated(20, 60_000)
            tasks.append(asyncio.create_task(beat()))
            while (answer := files.read_answer(1, "l1")) is None:
                await asyncio.sleep(0.05)
        assert sum(sample.values[0] for sample in answer.samples) >= 60_000
        await cancel_all(tasks)
        return kept

    assert len(asyncio.run(scenario())) == 60_000
    assert max(gaps) < 1.0 and not tracemalloc.is_tracing()
    assert len(makers) == 1 and makers[0] is not threading.current_thread()


async def test_a_recording_ends_with_its_request(tmp_path: Path) -> None:
    """One that is withdrawn leaves no answer, and a newer one is answered at once."""
    files = ProfileFiles(tmp_path)

    profiles = ProcessProfiles(ProfilingSettings(is_served=True), tmp_path, "l1")
    task = asyncio.create_task(profiles.serve())
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        for number in (1, 2):
            files.request(ProfileRequest(number, "heap", 120.0))
            while not tracemalloc.is_tracing():
                await asyncio.sleep(0.01)
            if number == 1:
                files.withdraw()
            else:
                files.request(ProfileRequest(3, "goroutine", 0.0))
            while tracemalloc.is_tracing():
                await asyncio.sleep(0.01)
        while files.read_answer(3, "l1") is None:
            await asyncio.sleep(0.01)
        files.withdraw()
    assert list(tmp_path.iterdir()) == []
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_request_for_too_long_is_not_answered(tmp_path: Path) -> None:
    files = ProfileFiles(tmp_path)

    profiles = ProcessProfiles(ProfilingSettings(is_served=True), tmp_path, "l1")
    task = asyncio.create_task(profiles.serve())
    await asyncio.sleep(0)
    for number, seconds in enumerate((199_999_999.0, -1.0, float("nan")), 1):
        files.request(ProfileRequest(number, "heap", seconds))
        await asyncio.sleep(2 * LOOK_SECONDS)
        assert not tracemalloc.is_tracing() and files.read_answer(number, "l1") is None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_nothing_runs_unless_it_is_wanted(tmp_path: Path) -> None:
    profiles = ProcessProfiles(ProfilingSettings(), tmp_path, "l1")
    profiles.begin()
    asyncio.run(asyncio.wait_for(profiles.serve(), 5))
    asyncio.run(profiles.end())
    assert list(tmp_path.iterdir()) == []


def test_a_node_writes_the_profile_of_all_its_processes_at_the_stop(start: StartNode, tmp_path: Path) -> None:
    """[LIF18]"""
    path = tmp_path / "goroutine.prof"
    node = start({"profile": ("goroutine", str(path))}).wait_until_ready()
    node.stop()
    result = decode(path.read_bytes())
    assert result.sample_types == [("goroutine", "count")] and result.comments == []
    assert {labels["process"] for _, _, labels in result.samples} == PROCESSES
    assert node.wait_for_line("wrote the profile", "supervisor")["processes"] == len(PROCESSES)
