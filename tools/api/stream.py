"""What `derive` and `batches` return: results of a thread for one `for` or `async for` loop, with a bar by tqdm."""

import asyncio
import contextlib
import queue
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from rollup_node.stages.messages.derivation import Drop
from rollup_node.tools.api.errors import needs_extra

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


class ProgressBar:
    """Shows the blocks of a range if it is `wanted`; with None in a notebook, if tqdm is installed.

    Raises InputError where it is wanted and tqdm is not installed."""

    def __init__(self, wanted: bool | None, first: int, last: int | None) -> None:
        self._bar: Any = None
        self._number = first
        if wanted is False or (wanted is None and not (in_notebook() and find_spec("tqdm"))):
            return
        try:
            from tqdm import tqdm
        except ModuleNotFoundError:
            raise needs_extra("tqdm") from None
        self._bar = tqdm(total=None if last is None else last - first, unit="block", delay=0.5)

    def update(self, number: int) -> None:
        """Note that all blocks up to this number are derived."""
        if self._bar is not None:
            self._bar.update(number - self._number)
        self._number = number

    def close(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.close()


def in_notebook() -> bool:
    """Whether the program is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class Run(Protocol[T]):
    """What a stream runs in its thread."""

    @property
    def last_drops(self) -> tuple[Drop, ...]:
        """What was dropped and belongs to no result, once the run has ended."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the results lack."""

    async def main(self, emit: Callable[[T], Awaitable[None]]) -> None:
        """Give each result to `emit`."""

    def error_of(self, error: BaseException, last: T | None) -> BaseException:
        """Return the error of the API for what ended `main`."""


class Stream(Generic[T]):
    """Results for one `for` or `async for` loop, with whose end everything ends that the stream has started.

    `last` is the result that was given last. The stream is also a context manager, which closes it."""

    def __init__(self, run: Run[T], bar: ProgressBar, number_of: Callable[[T], int]) -> None:
        self.last: T | None = None
        self._run, self._bar, self._number_of = run, bar, number_of
        self._background: Background[T] = Background(run.main)
        # Also where the program ends before the loop does. Nothing of the thread refers to this object.
        self._stop = weakref.finalize(self, self._background.stop)

    @property
    def drops(self) -> tuple[Drop, ...]:
        """What was dropped and is not in a result: after the last block. Empty until the loop has ended."""
        return self._run.last_drops

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the results lack, such as channels that were opened before the first L1 block that was read."""
        return self._run.warnings

    def close(self) -> None:
        """End it: nothing runs, and nothing is open. May be called several times."""
        self._stop()
        self._bar.close()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if not self._begin():
            raise StopIteration
        try:
            result = self._background.take()
            if isinstance(result, Ended):
                self._end(result)
                raise StopIteration
            return self._took(result)
        except BaseException:
            self.close()
            raise

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        if not self._begin():
            raise StopAsyncIteration
        try:
            result = await self._background.take_async()
            if isinstance(result, Ended):
                self._end(result)
                raise StopAsyncIteration
            return self._took(result)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: Any) -> None:
        self.close()

    def _begin(self) -> bool:
        """Start the thread with the first result; False when it has ended."""
        if self._stop.alive and not self._background.is_started:
            self._background.start()
        return self._stop.alive

    def _end(self, end: Ended) -> None:
        """Raise what ended the thread, if that was not the end of its work."""
        if end.error is not None:
            raise self._run.error_of(end.error, self.last) from None

    def _took(self, result: T) -> T:
        self.last = result
        self._bar.update(self._number_of(result))
        return result
