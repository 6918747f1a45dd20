"""Each kind of profile shows what it is for [LIF18, LIF20]."""

import asyncio
import threading
import time
import tracemalloc

import pytest

from rollup_node.stages.io.profiling.profile import Profile
from rollup_node.stages.io.profiling.recordings import KINDS, NO_MUTEXES, new_recording


def functions_of(profile: Profile) -> set[str]:
    """The names of all functions in the stacks, without their qualifiers."""
    return {function.rsplit(".", 1)[-1] for sample in profile.samples for function, _, _ in sample.stack}


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))


def test_cpu_time_goes_to_the_stacks_that_use_it() -> None:
    recording = new_recording("cpu")
    recording.begin()
    began = time.process_time_ns()
    thread = threading.Thread(target=burn, args=(0.3,), name="burner")
    thread.start()
    threading.Event().wait(0.05)
    burn(0.15)
    thread.join()
    used = time.process_time_ns() - began
    profile = recording.end()
    by_thread: dict[str, int] = {}
    for sample in profile.samples:
        if any(function == "burn" for function, _, _ in sample.stack):
            name = dict(sample.labels)["thread"]
            by_thread[name] = by_thread.get(name, 0) + sample.values[1]
    assert 0.1e9 < by_thread["MainThread"] <= used and 0.2e9 < by_thread["burner"] <= used
    total = sum(sample.values[1] for sample in profile.samples)
    assert total <= used + 50_000_000, "no more than the process has used"
    assert profile.sample_types == (("samples", "count"), ("cpu", "nanoseconds"))


def keep_a_megabyte() -> bytearray:
    return bytearray(1 << 20)


@pytest.mark.parametrize("kind", ["heap", "allocs"])
def test_live_allocations(kind: str) -> None:
    recording = new_recording(kind)
    recording.begin()
    kept = keep_a_megabyte()
    keep_a_megabyte()
    profile = recording.end()
    largest = max(profile.samples, key=lambda sample: sample.values[1])
    assert (1 << 20) <= largest.values[1] < (1 << 21), "what was freed does not count"
    assert largest.stack[0][1] == __file__ and largest.stack[0][0].startswith("test_recordings.py:")
    assert len(kept) == 1 << 20 and not tracemalloc.is_tracing()


def test_a_second_heap_profile_does_not_end_the_first() -> None:
    first, second = new_recording("heap"), new_recording("heap")
    first.begin()
    second.begin()
    second.end()
    assert tracemalloc.is_tracing()
    first.end()
    assert not tracemalloc.is_tracing()


def test_tasks_and_threads() -> None:
    async def waits_for_nothing() -> None:
        await asyncio.Event().wait()

    async def scenario() -> None:
        task = asyncio.create_task(waits_for_nothing(), name="idle task")
        waits = new_recording("block")
        waits.begin()
        await asyncio.sleep(0.3)
        blocked = waits.end()
        goroutines = new_recording("goroutine").end()
        threads = new_recording("threadcreate").end()
        task.cancel()
        assert "waits_for_nothing" in functions_of(goroutines) and "scenario" in functions_of(goroutines)
        assert any(dict(sample.labels).get("task") == "idle task" for sample in goroutines.samples)
        assert "waits_for_nothing" not in functions_of(threads) and threads.samples
        idle = [sample for sample in blocked.samples if dict(sample.labels)["task"] == "idle task"]
        assert sum(sample.values[1] for sample in idle) > 100_000_000
        assert not any(dict(sample.labels)["task"] == "block profile" for sample in blocked.samples)

    asyncio.run(scenario())


def test_there_are_no_mutexes() -> None:
    recording = new_recording("mutex")
    recording.begin()
    profile = recording.end()
    assert profile.samples == () and profile.comments == (NO_MUTEXES,)


def test_every_kind_is_known() -> None:
    async def scenario() -> None:
        for kind in KINDS:
            recording = new_recording(kind)
            recording.begin()
            assert recording.end().kind == kind
        with pytest.raises(ValueError, match="no such profile: trace"):
            new_recording("trace")

    asyncio.run(scenario())
