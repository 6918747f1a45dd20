"""What the runtime does with errors, prints and results of a stage, in a toy node."""

import asyncio
import json
import logging
import os
import signal
import threading
import time
import tracemalloc
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from rollup_node.node.runtime.runtime import (
    PROFILE_LOOK_SECONDS,
    ProcessProfiles,
    capture_library_logs,
    dropped_lines,
)
from rollup_node.node.system.exit_codes import RESTART
from rollup_node.node.system.profiling import ProfilingSettings
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level, Record
from rollup_node.stages.io.profiling.profile import ProfileFiles, ProfileRequest
from rollup_node.stages.io.task import cancel_all
from rollup_node.stages.messages.codes import Code
from tests.support.processes.toy_harness import PROCESSES, StartNode, ToyNode
from tests.support.rpc.pprof_decoder import decode


def test_the_traceback_of_a_bug_is_in_the_log(running: ToyNode) -> None:
    before = running.processes()["left"]["incarnation"]
    running.order("left", "crash")
    line = running.wait_for_line("a bug ends this process", "left")
    assert line["trace"].startswith("Traceback")
    assert "ValueError: a toy's bug" in line["trace"]
    running.wait_for_restart("left", before + 1)


@pytest.mark.sign("FORK-MISMATCH", line=True)
@pytest.mark.parametrize(
    ("action", "code", "text", "line"),
    [
        (
            "critical",
            70,
            "failed with a critical error: a toy contradicts itself",
            {"error": "a toy contradicts itself"},
        ),
        (
            "forks",
            77,
            "found other forks in the execution engine (FORK-MISMATCH): the toys have other forks: set"
            " --override.jovian",
            {"code": "FORK-MISMATCH", "do": Code.FORK_MISMATCH.remedy},
        ),
        ("restart", RESTART, "", {"reason": "the toys have other colours now"}),
    ],
)
def test_errors_that_end_the_node_have_codes_of_their_own(
    start: StartNode, action: str, code: int, text: str, line: dict[str, object]
) -> None:
    """[UPG26] A process may ask for a new start, without a word of failure; the caller starts the node again."""
    node = start().wait_until_ready()
    node.order("left", action)
    assert node.wait_for_exit() == (code, f"rollup-node: process left {text}\n" if text else "")
    assert [item for item in node.lines if item["process"] == "left" and line.items() <= item.items()]
    assert node.stop_order()[2:] == ["right"]


def test_temporary_errors_and_resets_do_not_end_a_process(running: ToyNode) -> None:
    running.order("left", "temporary")
    running.wait_for_line("toy reports", "left", problems="RETRYING: orders: the toy endpoint is away")
    running.order("right", "reset")
    running.wait_for_line("toy reset", "right", reason="the toy ground moved")
    running.wait_for_line("toy reports", "left", problems="none")
    running.wait_for_line("recovered", "left", task="orders", tried=1)
    assert not running.logged("process died")


def test_prints_and_fault_dumps_reach_the_log(running: ToyNode) -> None:
    running.order("left", "print")
    printed = {b"printed\n", b"by hand\n", b"written past Python\n"}
    running.wait(lambda: printed <= set(running.raw), "the printed lines")
    os.kill(running.processes()["left"]["pid"], signal.SIGUSR2)
    running.wait(lambda: any(line.startswith(b"Current thread") for line in running.raw), "the stack")


def test_a_new_log_level_holds_in_all_processes_and_after_a_restart(running: ToyNode) -> None:
    """[RPC54]"""
    running.order("left", "log everything")

    def traced() -> object:
        running.order("right", "trace")
        return running.logged("toy traces", "right")

    running.wait(traced, "the level in another process")
    before = running.processes()["right"]["incarnation"]
    running.order("right", "crash")
    running.wait_for_restart("right", before + 1)
    count = len(running.logged("toy traces"))
    running.order("right", "trace")
    running.wait_for_line("toy traces", "right", count=count + 1)


@pytest.mark.parametrize("code", [0, 5])
def test_a_one_shot_process_ends_the_node_with_its_code(start: StartNode, code: int) -> None:
    node = start({"job": code})
    node.order("job", "finish")
    ended, text = node.wait_for_exit()
    assert ended == code
    assert node.raw == [b"the result\n"], "stdout has nothing but the result"
    *log, last = text.splitlines()
    lines = [json.loads(line) for line in (log if code else text.splitlines())]
    assert next(line["name"] for line in lines if line["msg"] == "process ended") == "job"
    assert code == 0 or last == "rollup-node: process job ended with exit code 5: see its last log lines"


@pytest.mark.condition("C15")
def test_dropped_lines_have_a_code() -> None:
    record = dropped_lines("l1", 3)
    assert (record.process, record.level, record.fields["lines"]) == ("l1", Level.WARN, 3)
    assert (record.fields["code"], record.fields["do"]) == ("LOG-DROPPED", Code.LOG_DROPPED.remedy)


@pytest.fixture
def library_lines() -> Iterator[list[Record]]:
    """Yield the records that libraries write while the test runs."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    lines: list[Record] = []
    log.configure("l1", Level.DEBUG, lines.append)
    capture_library_logs(Level.DEBUG)
    yield lines
    logging.captureWarnings(False)
    root.handlers[:], root.level = handlers, level


def test_records_of_libraries_reach_our_log(library_lines: list[Record]) -> None:
    logging.getLogger("aiohttp.client").info("quiet %d", 1)
    logging.getLogger("asyncio").debug("quieter")
    try:
        raise ValueError("boom")
    except ValueError:
        logging.getLogger("asyncio").exception("a task failed")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old stuff", stacklevel=1)
    first, second, third = library_lines
    assert (first.level, first.component, first.message) == (Level.DEBUG, "aiohttp.client", "quiet 1")
    assert second.level is Level.ERROR
    assert "ValueError: boom" in (second.traceback or "")
    assert (third.level, third.component) == (Level.WARN, "py.warnings")


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
    await cancel_all([task])


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


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[ProfileFiles]:
    """Yield the files of a process that serves profiles."""
    task = asyncio.create_task(ProcessProfiles(ProfilingSettings(is_served=True), tmp_path, "l1").serve())
    await asyncio.sleep(0)
    yield ProfileFiles(tmp_path)
    await cancel_all([task])


async def test_a_recording_ends_with_its_request(files: ProfileFiles, tmp_path: Path) -> None:
    """One that is withdrawn leaves no answer, and a newer one is answered at once."""
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


async def test_a_request_for_too_long_is_not_answered(files: ProfileFiles) -> None:
    for number, seconds in enumerate((199_999_999.0, -1.0, float("nan")), 1):
        files.request(ProfileRequest(number, "heap", seconds))
        await asyncio.sleep(3 * PROFILE_LOOK_SECONDS)
        assert not tracemalloc.is_tracing() and files.read_answer(number, "l1") is None


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
