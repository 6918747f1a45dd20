"""The profiles of one process, and of a whole toy node."""

import asyncio
import contextlib
from pathlib import Path

from rollup_node.node.runtime.process_profiles import ProcessProfiles
from rollup_node.node.system.profiling import ProfilingSettings
from rollup_node.stages.io.profiling.profile import ProfileRequest
from rollup_node.stages.io.profiling.profile_files import ProfileFiles
from tests.support.pprof_decoder import decode
from tests.support.toy_harness import PROCESSES, StartNode


def test_requests_are_answered_once(tmp_path: Path) -> None:
    files = ProfileFiles(tmp_path)
    files.request(ProfileRequest(1, "goroutine", 0.0))

    async def scenario() -> None:
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

    asyncio.run(scenario())


def test_nothing_runs_unless_it_is_wanted(tmp_path: Path) -> None:
    profiles = ProcessProfiles(ProfilingSettings(), tmp_path, "l1")
    profiles.begin()
    asyncio.run(asyncio.wait_for(profiles.serve(), 5))
    profiles.end()
    assert list(tmp_path.iterdir()) == []


def test_a_node_writes_the_profile_of_all_its_processes_at_the_stop(start: StartNode, tmp_path: Path) -> None:
    """[LIF18]"""
    path = tmp_path / "goroutine.prof"
    node = start({"profile": ("goroutine", str(path))}).wait_until_ready()
    node.stop()
    found = decode(path.read_bytes())
    assert found.sample_types == [("goroutine", "count")] and found.comments == []
    assert {labels["process"] for _, _, labels in found.samples} == PROCESSES
    assert node.wait_for_line("wrote the profile", "supervisor")["processes"] == len(PROCESSES)
