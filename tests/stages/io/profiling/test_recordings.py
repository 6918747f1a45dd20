"""Each kind of profile shows what it is for [LIF18, LIF20]."""

import asyncio
import threading
import time
import tracemalloc

import pytest

from rollup_node.stages.io.profiling import recordings
from rollup_node.stages.io.profiling.profile import Profile, Stack
from rollup_node.stages.io.profiling.recordings import (
    KINDS,
    MAX_FRAMES,
    NO_MUTEXES,
    Recording,
    new_recording,
    task_stack,
    thread_stacks,
)

BURN_SECONDS = 30.0
CLOCKS_APART = 1_000_000
"""Nanoseconds that a thread may use between the test's look at its clock and the recording's."""


def ended(recording: Recording) -> Profile:
    """End a recording; its profile."""
    recording.end()
    return recording.profile()


def functions_of(profile: Profile) -> set[str]:
    """Return the names of all functions in the stacks, without their qualifiers."""
    return {function.rsplit(".", 1)[-1] for sample in profile.samples for function, _, _ in sample.stack}


def test_cpu_time_goes_to_the_stacks_that_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a thread uses between two looks that find it in a function is that function's.

    Before the first and behind the last look some is lost."""
    seen: dict[str, list[int]] = {"MainThread": [], "burner": []}

    def watched_stacks() -> dict[int, tuple[threading.Thread, Stack]]:
        """As for the recording; notes the CPU time of the threads that burn."""
        result = thread_stacks()
        for thread_id, (thread, stack) in result.items():
            if any(function.endswith("burn") for function, _, _ in stack):
                seen[thread.name].append(recordings._thread_cpu_time(thread_id) or 0)
        return result

    def burn() -> None:
        deadline = time.monotonic() + BURN_SECONDS
        while len(seen[threading.current_thread().name]) < 5 and time.monotonic() < deadline:
            sum(range(1000))

    monkeypatch.setattr(recordings, "thread_stacks", watched_stacks)
    recording = new_recording("cpu")
    began = time.process_time_ns()
    recording.begin()
    thread = threading.Thread(target=burn, name="burner")
    thread.start()
    burn()
    thread.join()
    profile = ended(recording)
    used = time.process_time_ns() - began
    by_thread: dict[str, int] = {}
    for sample in profile.samples:
        if any(function.endswith("burn") for function, _, _ in sample.stack):
            name = dict(sample.labels)["thread"]
            by_thread[name] = by_thread.get(name, 0) + sample.values[1]
    for name, clocks in seen.items():
        assert 0 < clocks[-1] - clocks[0] <= by_thread[name] + CLOCKS_APART
    assert sum(sample.values[1] for sample in profile.samples) <= used, "no more than the process has used"
    assert profile.sample_types == (("samples", "count"), ("cpu", "nanoseconds"))


def megabytes(count: int) -> list[bytearray]:
    return [bytearray(1 << 20) for _ in range(count)]


@pytest.mark.parametrize("kind", ["heap", "allocs"])
def test_live_allocations(kind: str) -> None:
    """Another profile meanwhile does not end the first."""
    recording, other = new_recording(kind), new_recording("heap")
    recording.begin()
    other.begin()
    other.end()
    kept = megabytes(3)
    megabytes(2)
    profile = ended(recording)
    largest = max(profile.samples, key=lambda sample: sample.values[1])
    assert 3 << 20 <= largest.values[1] < 4 << 20, "what was freed does not count"
    assert 3 <= largest.values[0] <= 12, "the arrays, and the objects around them"
    assert largest.stack[0][1] == __file__ and largest.stack[0][0].startswith("test_recordings.py:")
    assert len(kept) == 3 and not tracemalloc.is_tracing()


def test_tasks_and_threads() -> None:
    async def waits_for_nothing() -> None:
        await asyncio.Event().wait()

    begun, ended_ = threading.Event(), threading.Event()

    def wait_for_the_end() -> None:
        begun.set()
        ended_.wait(10)

    async def scenario() -> None:
        thread = threading.Thread(target=wait_for_the_end, name="waiting")
        thread.start()
        begun.wait(10)
        for kind in KINDS:
            recording = new_recording(kind)
            recording.begin()
            profile = ended(recording)
            assert profile.kind == kind
            assert kind != "mutex" or (profile.samples, profile.comments) == ((), (NO_MUTEXES,))
        with pytest.raises(ValueError, match="no such profile: trace"):
            new_recording("trace")
        task = asyncio.create_task(waits_for_nothing(), name="idle task")
        waits = new_recording("block")
        waits.begin()
        await asyncio.sleep(0.3)
        blocked = ended(waits)
        goroutines = ended(new_recording("goroutine"))
        threads = ended(new_recording("threadcreate"))
        task.cancel()
        ended_.set()
        thread.join()
        (waiting,) = (sample for sample in threads.samples if dict(sample.labels) == {"thread": "waiting"})
        names = [function.rsplit(".", 1)[-1] for function, _, _ in waiting.stack]
        assert names.index("wait") < names.index("wait_for_the_end"), "the innermost first"
        assert "waits_for_nothing" in functions_of(goroutines) and "scenario" in functions_of(goroutines)
        assert any(dict(sample.labels).get("task") == "idle task" for sample in goroutines.samples)
        assert "waits_for_nothing" not in functions_of(threads) and threads.samples
        idle = [sample for sample in blocked.samples if dict(sample.labels)["task"] == "idle task"]
        assert sum(sample.values[1] for sample in idle) > 100_000_000
        assert not any(dict(sample.labels)["task"] == "block profile" for sample in blocked.samples)

    asyncio.run(scenario())


def test_the_whole_stack_of_a_task_that_waits() -> None:
    async def inner() -> None:
        await asyncio.sleep(10)

    async def outer() -> None:
        await inner()

    async def levels(count: int) -> None:
        await (levels(count - 1) if count else inner())

    async def scenario() -> None:
        task = asyncio.create_task(outer())
        await asyncio.sleep(0)
        names = [function.rsplit(".", 1)[-1] for function, _, _ in task_stack(task)]
        assert names == ["sleep", "inner", "outer"]
        task.cancel()
        deep = asyncio.create_task(levels(200))
        await asyncio.sleep(0)
        assert len(task_stack(deep)) == MAX_FRAMES
        deep.cancel()
        current = asyncio.current_task()
        assert current is not None
        functions = [function.rsplit(".", 1)[-1] for function, _, _ in task_stack(current)]
        assert "scenario" in functions and "run_until_complete" in functions

    asyncio.run(scenario())
