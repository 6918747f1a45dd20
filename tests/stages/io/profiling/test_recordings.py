"""Each kind of profile shows what it is for [LIF18, LIF20]."""

import asyncio
import threading
import time
import tracemalloc

import pytest

from rollup_node.stages.io.profiling.profile import Profile, Stack, StackTable
from rollup_node.stages.io.profiling.recordings import KINDS, NO_MUTEXES, Recording, add_allocations, new_recording


def ended(recording: Recording) -> Profile:
    """Ends a recording; its profile."""
    recording.end()
    return recording.profile()


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
    profile = ended(recording)
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
    profile = ended(recording)
    largest = max(profile.samples, key=lambda sample: sample.values[1])
    assert (1 << 20) <= largest.values[1] < (1 << 21), "what was freed does not count"
    assert largest.stack[0][1] == __file__ and largest.stack[0][0].startswith("test_recordings.py:")
    assert len(kept) == 1 << 20 and not tracemalloc.is_tracing()


def test_allocations_are_summed_by_stack() -> None:
    """Numbers and bytes are those of a sum over each single allocation."""
    tracemalloc.start(16)
    kept = [bytearray(number) for number in range(200)]
    kept += [bytearray(9) for _ in range(100)]
    snapshot = tracemalloc.take_snapshot()
    tracemalloc.stop()
    expected: dict[Stack, tuple[int, int]] = {}
    for trace in snapshot.traces:
        frames = [
            (f"{each.filename.rsplit('/', 1)[-1]}:{each.lineno}", each.filename, each.lineno)
            for each in trace.traceback
        ]
        stack = tuple(reversed(frames))
        count, size = expected.get(stack, (0, 0))
        expected[stack] = count + 1, size + trace.size
    table = StackTable()
    add_allocations(table, snapshot)
    assert {sample.stack: sample.values for sample in table.samples()} == expected
    assert len(kept) == 300 and len(expected) > 1 and max(count for count, _ in expected.values()) >= 200


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
        blocked = ended(waits)
        goroutines = ended(new_recording("goroutine"))
        threads = ended(new_recording("threadcreate"))
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
    profile = ended(recording)
    assert profile.samples == () and profile.comments == (NO_MUTEXES,)


def test_every_kind_is_known() -> None:
    async def scenario() -> None:
        for kind in KINDS:
            recording = new_recording(kind)
            recording.begin()
            assert ended(recording).kind == kind
        with pytest.raises(ValueError, match="no such profile: trace"):
            new_recording("trace")

    asyncio.run(scenario())
