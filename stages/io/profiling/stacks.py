"""Stacks of threads and of asyncio tasks, as they are now."""

import asyncio
import sys
import threading
from types import CodeType, FrameType
from typing import Any

from rollup_node.stages.io.profiling.profile import Stack

MAX_FRAMES = 64


def thread_stacks() -> dict[int, tuple[threading.Thread, Stack]]:
    """Return the Python threads with their stacks, by the kernel's thread ids."""
    frames = sys._current_frames()
    found = {}
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if frame is not None and thread.native_id is not None:
            found[thread.native_id] = (thread, frame_stack(frame))
    return found


def frame_stack(frame: FrameType | None) -> Stack:
    """Return the stack of a frame that runs."""
    stack: list[tuple[str, str, int]] = []
    while frame is not None and len(stack) < MAX_FRAMES:
        stack.append(_shown(frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(stack)


def task_stack(task: asyncio.Task[Any]) -> Stack:
    """Where a task waits: the coroutines from the one that awaits something else to the task's own.

    That of the running task is its whole stack."""
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
