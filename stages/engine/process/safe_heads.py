"""The safe head database of the running process.

A thread of its own opens and uses the file, so that a slow disk delays nothing else. Reads and writes are done in the
order in which they are asked for."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.safedb.entries import (
    FindSafeHeads,
    FoundSafeHeads,
    ResetSafeHeads,
    SafeHeadEntry,
    SafeHeadsWritten,
    SafeHeadWrite,
)
from rollup_node.stages.engine.safedb.io.store import HistoryUnavailableError, SafeHeadStore
from rollup_node.stages.io.files.sqlite_file import StoreError
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.control import L1AtSafeHeadRequest, SafeHeadRequest, SafeHeadResponse
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId

T = TypeVar("T")
NOT_FOUND = "not found"
_NO_BLOCK = BlockId(0, ZERO_HASH)

log = get_logger("engine")


class SafeHeadDatabase:
    """The file of `safedb_path`, opened by the first call; by the next one where that fails."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._store: SafeHeadStore | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="safe head database")

    async def write(self, write: SafeHeadWrite) -> SafeHeadsWritten:
        """Make a change; it is on disk when this returns. Raises TemporaryError when the file fails."""
        try:
            ended_at = await self._run(lambda store: store.write(write))
        except StoreError as error:
            raise TemporaryError(str(error), Code.SAFEDB) from None
        if ended_at is not None and isinstance(write, ResetSafeHeads):
            what = "has a gap" if write.supervised else "is cleared"
            log.warn(
                f"the safe head database {what}: blocks became safe since its last entry that it lacks",
                code=Code.SAFEDB_GAP.text,
                last=ended_at.safe_head,
                derived_from=ended_at.l1_block,
                safe=write.safe,
            )
        return SafeHeadsWritten()

    async def find(self, wanted: FindSafeHeads) -> FoundSafeHeads:
        """Return the entries at which derivation may resume. Raises TemporaryError when the file fails."""
        try:
            return await self._run(lambda store: store.find(wanted))
        except StoreError as error:
            raise TemporaryError(str(error), Code.SAFEDB) from None

    async def at_l1(self, request: SafeHeadRequest) -> SafeHeadResponse:
        """optimism_safeHeadAtL1Block [RPC35]."""
        try:
            result: SafeHeadEntry | None = await self._run(lambda store: store.at_l1(request.number))
        except StoreError as error:
            text = f"failed to get safe head at l1 block {hex(request.number)}: {error}"
            return SafeHeadResponse(request.id, text, _NO_BLOCK, _NO_BLOCK)
        except HistoryUnavailableError as error:
            return SafeHeadResponse(request.id, str(error), _NO_BLOCK, _NO_BLOCK)
        if result is None:
            return SafeHeadResponse(request.id, NOT_FOUND, _NO_BLOCK, _NO_BLOCK)
        return SafeHeadResponse(request.id, None, result.l1_block, result.safe_head)

    async def l1_of(self, request: L1AtSafeHeadRequest) -> SafeHeadResponse:
        """Return the record of superroot_atTimestamp's L1 block [RPC44, SDB6]."""
        try:
            result: SafeHeadEntry | None = await self._run(lambda store: store.l1_of(request.number))
        except (StoreError, HistoryUnavailableError) as error:
            return SafeHeadResponse(request.id, str(error), _NO_BLOCK, _NO_BLOCK)
        if result is None:
            return SafeHeadResponse(request.id, "l1 at safe head not found", _NO_BLOCK, _NO_BLOCK)
        return SafeHeadResponse(request.id, None, result.l1_block, result.safe_head)

    async def close(self, seconds: float) -> None:
        """Close the file, and wait up to `seconds` for a call that is open."""
        closing = self._thread.submit(self._close)
        self._thread.shutdown(wait=False)
        await asyncio.wait((asyncio.wrap_future(closing),), timeout=seconds)

    async def _run(self, use: Callable[[SafeHeadStore], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: use(self._open()))

    def _open(self) -> SafeHeadStore:
        if self._store is None:
            if self._config.safedb_path is None:
                raise StoreError("safe head database not enabled")
            self._store = SafeHeadStore(self._config.safedb_path, self._config.rollup)
        return self._store

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
