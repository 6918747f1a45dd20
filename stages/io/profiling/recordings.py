"""The kinds of profile: each is begun, and ended with a profile of what happened in between [LIF18, LIF20]."""

import asyncio
import gc
import sys
import threading
import time
import tracemalloc
from types import CodeType, FrameType
from typing import Any

from rollup_node.stages.io.profiling.profile import Profile, Stack, StackTable

Types = tuple[tuple[str, str], ...]

CPU_PERIOD = 0.01
WAIT_PERIOD = 0.05
TRACED_FRAMES = 16
MAX_FRAMES = 64
NO_MUTEXES = "Python does not measure waits for locks, and the processes of a node share no memory"
LIVE_ONLY = "allocations since the recording began that were not freed by its end"


class Recording:
    """One profile in the making, with the period and comments of `Profile`.

    It is begun and ended in the thread of the event loop."""

    types: Types
    period_type: tuple[str, str]
    period = 1
    comments: tuple[str, ...] = ()

    def __init__(self, kind: str) -> None:
        self._kind, self._table = kind, StackTable()
        self._began, self._began_monotonic = time.time_ns(), time.monotonic_ns()
        self._duration = 0

    def begin(self) -> None:
        return

    def end(self) -> None:
        """Stop."""
        self._duration = time.monotonic_ns() - self._began_monotonic

    def profile(self) -> Profile:
        """Return what was observed, after `end`. It may take seconds of CPU time, and any thread may call it."""
        samples, of_time = self._table.samples(), (self._began, self._duration)
        return Profile(self._kind, self.types, samples, self.period_type, self.period, *of_time, self.comments)


class CpuRecording(Recording):
    """CPU time by stack, that of C code without the interpreter's lock as well: a thread looks every 10 ms."""

    types = (("samples", "count"), ("cpu", "nanoseconds"))
    period_type, period = types[1], int(CPU_PERIOD * 1e9)

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="CPU profile", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        self._thread.join(1.0)
        super().end()

    def _run(self) -> None:
        used: dict[int, int] = {}
        while not self._stop.wait(CPU_PERIOD):
            for thread_id, (thread, stack) in thread_stacks().items():
                clock = _thread_cpu_time(thread_id)
                spent = 0 if clock is None else clock - used.get(thread_id, clock)
                if clock is not None:
                    used[thread_id] = clock
                if spent > 0 and thread is not self._thread:
                    self._table.add(stack, (1, spent), (("thread", thread.name),))


def _thread_cpu_time(thread_id: int) -> int | None:
    """Nanoseconds of CPU time of a thread; None if it has ended."""
    try:
        # The kernel's clock of a thread. pthread_getcpuclockid may crash for one that has just ended.
        return time.clock_gettime_ns(~thread_id << 3 | 6)
    except OSError:
        return None


class HeapRecording(Recording):
    """Memory allocated meanwhile and still in use, by where; allocations take two to four times as long."""

    types, period_type = (("inuse_objects", "count"), ("inuse_space", "bytes")), ("space", "bytes")
    comments = (LIVE_ONLY,)

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self._is_mine = False
        self._snapshot: tracemalloc.Snapshot | None = None

    def begin(self) -> None:
        self._is_mine = not tracemalloc.is_tracing()
        if self._is_mine:
            tracemalloc.start(TRACED_FRAMES)

    def end(self) -> None:
        # Finalizers that a collection runs may belong to the event loop, so it is not left to another thread.
        gc.collect()
        self._snapshot = tracemalloc.take_snapshot()
        if self._is_mine:
            tracemalloc.stop()
        super().end()

    def profile(self) -> Profile:
        if self._snapshot is not None:
            add_allocations(self._table, self._snapshot)
            self._snapshot = None
        return super().profile()


def add_allocations(table: StackTable, snapshot: tracemalloc.Snapshot) -> None:
    """Add number and bytes of a snapshot's allocations, the largest first; each stack is formatted once."""
    for statistic in snapshot.statistics("traceback"):
        frames = ((f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}", frame) for frame in statistic.traceback)
        stack = tuple((name, frame.filename, frame.lineno) for name, frame in frames)
        table.add(stack[::-1], (statistic.count, statistic.size))


class StacksRecording(Recording):
    """The stacks of all threads at the end and, for `goroutine`, those of all tasks."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.period_type = (kind, "count")
        self.types = (self.period_type,)

    def end(self) -> None:
        for thread, stack in thread_stacks().values():
            self._table.add(stack, (1,), (("thread", thread.name),))
        if self._kind == "goroutine":
            for task in asyncio.all_tasks():
                self._table.add(task_stack(task), (1,), (("task", task.get_name()),))
        super().end()


class WaitsRecording(Recording):
    """Where tasks wait, looked at every 50 ms by a task of its own."""

    types = (("samples", "count"), ("delay", "nanoseconds"))
    period_type, period = types[1], int(WAIT_PERIOD * 1e9)

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.create_task(self._run(), name="block profile")

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
        super().end()

    async def _run(self) -> None:
        own = asyncio.current_task()
        seen = time.monotonic_ns()
        while True:
            await asyncio.sleep(WAIT_PERIOD)
            now = time.monotonic_ns()
            for task in asyncio.all_tasks():
                if task is not own:
                    self._table.add(task_stack(task), (1, now - seen), (("task", task.get_name()),))
            seen = now


class EmptyRecording(Recording):
    """`mutex`: a valid profile without samples, which says why."""

    types, period_type = (("contentions", "count"), ("delay", "nanoseconds")), ("delay", "nanoseconds")
    comments = (NO_MUTEXES,)


KINDS: dict[str, type[Recording]] = {
    "cpu": CpuRecording,
    "heap": HeapRecording,
    "goroutine": StacksRecording,
    "threadcreate": StacksRecording,
    "block": WaitsRecording,
    "mutex": EmptyRecording,
    "allocs": HeapRecording,
}


def new_recording(kind: str) -> Recording:
    """Return a recording of one of KINDS. Raises ValueError for another kind."""
    if kind not in KINDS:
        raise ValueError(f"no such profile: {kind}")
    return KINDS[kind](kind)


def thread_stacks() -> dict[int, tuple[threading.Thread, Stack]]:
    """Return the Python threads with their stacks, by the kernel's thread ids."""
    frames = sys._current_frames()
    result = {}
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if frame is not None and thread.native_id is not None:
            result[thread.native_id] = (thread, frame_stack(frame))
    return result


def frame_stack(frame: FrameType | None) -> Stack:
    stack: list[tuple[str, str, int]] = []
    while frame is not None and len(stack) < MAX_FRAMES:
        stack.append(_shown(frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(stack)


def task_stack(task: asyncio.Task[Any]) -> Stack:
    """Where a task waits: the coroutines from the awaiting one to the task's own, or the running task's stack."""
    stack: list[tuple[str, str, int]] = []
    awaited: Any = task.get_coro()
    while awaited is not None and len(stack) < MAX_FRAMES:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is None:
            break
        if getattr(awaited, "cr_running", False):
            return frame_stack(frame)
        stack.append(_shown(frame.f_code, frame.f_lineno))
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return tuple(reversed(stack))


def _shown(code: CodeType, line: int | None) -> tuple[str, str, int]:
    return code.co_qualname, code.co_filename, line or code.co_firstlineno
