"""What `derive` and `batches` return: results of a thread for one `for` or `async for` loop."""

import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from rollup_node.stages.messages.derivation import Drop
from rollup_node.tools.api.background import Background, Ended
from rollup_node.tools.api.progress import ProgressBar

T = TypeVar("T")


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
