"""An event loop in a thread, whose results a program takes one by one, in a `for` loop or in its own event loop."""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
QUEUED = 64
"""Results that wait to be taken before the thread pauses."""
STOP_SECONDS = 10.0


class Ended(NamedTuple):
    """There are no more results; `error` is what ended the thread, None at the end of its work."""

    error: BaseException | None


class Background(Generic[T]):
    """Runs `main(emit)`, which emits results and pauses while `QUEUED` of them wait.

    The thread is a daemon: a program that ends does not wait for it."""

    def __init__(self, main: Callable[[Callable[[T], Awaitable[None]]], Awaitable[None]]) -> None:
        self._main = main
        self._results: queue.SimpleQueue[T | Ended] = queue.SimpleQueue()
        self._room = asyncio.Semaphore(QUEUED)
        self._is_running = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._on_result: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="rollup_node", daemon=True)

    @property
    def is_started(self) -> bool:
        """Whether the thread was started."""
        return self._thread.ident is not None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def take(self) -> T | Ended:
        """Wait for the next result, or the end, and return it."""
        return self._taken(self._results.get())

    async def take_async(self) -> T | Ended:
        """As `take`, without blocking the event loop of the caller."""
        loop, came = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            # The caller's loop may have ended.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(came.set)

        self._on_result = wake
        while True:
            with contextlib.suppress(queue.Empty):
                return self._taken(self._results.get_nowait())
            await came.wait()
            came.clear()

    def stop(self) -> None:
        """End the thread, and wait until all that it opened is closed. May be called several times."""
        if not self.is_started or not self._is_running.wait(STOP_SECONDS):
            return
        assert self._loop is not None and self._task is not None
        # The loop may have ended.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(STOP_SECONDS)

    def _taken(self, result: T | Ended) -> T | Ended:
        if not isinstance(result, Ended) and self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._room.release)
        return result

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            asyncio.run(self._guarded())
        except BaseException as failure:
            error = failure
        finally:
            self._is_running.set()
        self._put(Ended(error))

    async def _guarded(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._is_running.set()
        await self._main(self._emit)

    async def _emit(self, result: T) -> None:
        await self._room.acquire()
        self._put(result)

    def _put(self, result: T | Ended) -> None:
        self._results.put(result)
        self._on_result()
