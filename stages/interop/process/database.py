"""The interop database, used in order by a thread of its own, so that a slow disk delays nothing else."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from rollup_node.stages.interop.config import InteropConfig
from rollup_node.stages.interop.io.store import InteropStore, InteropStoreError
from rollup_node.stages.protocol.errors import CriticalError, TemporaryError

T = TypeVar("T")


class InteropDatabase:
    """The file of `path`, open as long as the process runs. Raises CriticalError if it does not open [VDB2, VDB4]."""

    def __init__(self, path: str, config: InteropConfig) -> None:
        try:
            self.store = InteropStore(path, config, create=False)
        except InteropStoreError as error:
            raise CriticalError(str(error), error.code) from None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="interop database")

    async def run(self, use: Callable[[InteropStore], T]) -> T:
        """Return what a function makes of the store. Raises TemporaryError when the file fails.

        A damaged file fails again each time, until the node is stopped and the file removed."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: use(self.store))
        except InteropStoreError as error:
            raise TemporaryError(str(error), error.code) from None

    async def close(self, seconds: float) -> None:
        """Close the file, and wait up to `seconds` for a call that is open."""
        closing = self._thread.submit(self.store.close)
        self._thread.shutdown(wait=False)
        await asyncio.wait((asyncio.wrap_future(closing),), timeout=seconds)
