"""The safe head database, used in order by a thread of its own, so that a slow disk delays nothing else."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from rollup_node.stages.engine.calls import safe_head_entries
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.io.files.sqlite_file import (
    SQLITE_ERRORS,
    DamagedFileError,
    FileKind,
    StoreError,
    is_block,
    open_sqlite,
    transaction,
)
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.control import (
    L1_HISTORY_UNAVAILABLE,
    L1_NOT_FOUND,
    L1AtSafeHeadRequest,
    SafeHeadRequest,
    SafeHeadResponse,
)
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId

T = TypeVar("T")
NOT_FOUND = "not found"
_NO_BLOCK = BlockId(0, ZERO_HASH)

log = Logger("engine")


WHAT, OPTION = "safe head database", "safedb.path"
MAX_NUMBER = 2**63 - 1
"""SQLite's integers end here."""

_APPLICATION = 0x52505344
_SCHEMA = """
create table if not exists safe_heads
  (l1_number integer primary key, l1_hash blob not null, l2_number integer not null, l2_hash blob not null);
create index if not exists safe_heads_by_l2 on safe_heads (l2_number);
create table if not exists gaps
  (l1_after integer not null, l1_until integer, l2_first integer not null, l2_last integer not null);
create table if not exists chain (chain_id integer not null, genesis blob not null);
insert into chain select {chain_id}, x'{genesis}' where not exists (select 1 from chain);
"""
_SELECT = "select l1_number, l1_hash, l2_number, l2_hash from safe_heads"
_AT_L1 = f"{_SELECT} where l1_number <= ? order by l1_number desc limit 1"
_L1_OF = f"{_SELECT} where l2_number >= ? order by l2_number, l1_number limit 1"
# The index would be searched for all higher L2 numbers; the entries wanted follow closely in the order of L1.
_FIRST_OF_RESET = f"{_SELECT} not indexed where l1_number >= ? and l2_number >= ? order by l1_number limit 1"


_IN_GAP_OF_L1 = "select 1 from gaps where l1_after <= ? and (l1_until is null or l1_until > ?)"
_IN_GAP_OF_L2 = "select 1 from gaps where l2_first <= ? and l2_last >= ?"


class HistoryUnavailableError(Exception):
    """The block became safe before the record begins, or in a gap of it."""


class SafeHeadStore:
    """The database in the file `path`. All errors are StoreErrors, which change nothing and name the option."""

    def __init__(self, path: str, rollup: RollupConfig, *, check: bool = False) -> None:
        """Open the file, which is created if it is missing; `check` reads all of it for damage."""
        self._path = path
        if Path(path).is_dir():
            text = "is a directory (op-node's cannot be read): give the path of a file"
            raise StoreError(f"{WHAT} {path} {text} ({OPTION})")
        genesis = rollup.genesis.l2.hash
        schema = _SCHEMA.format(chain_id=rollup.l2_chain_id, genesis=genesis.hex())
        try:
            self._connection = open_sqlite(path, FileKind(WHAT, OPTION, _APPLICATION, schema, "full"), check=check)
        except DamagedFileError as error:
            raise StoreError(f"{error}; safe heads are recorded from then on") from None
        try:
            self._check_chain(rollup.l2_chain_id, genesis)
        except StoreError:
            self.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def write(self, write: safe_head_entries.SafeHeadWrite) -> safe_head_entries.SafeHeadEntry | None:
        """Make a change, on disk when this returns; the last entry if a gap begins [SDB3, SDB7, SDB15]."""
        ended_at: safe_head_entries.SafeHeadEntry | None = None
        with self._errors(), transaction(self._connection):
            match write:
                case safe_head_entries.SafeHeadEntry():
                    self._apply(safe_head_entries.record(write))
                case safe_head_entries.ResetSafeHeads(safe=safe):
                    first = self._find(_FIRST_OF_RESET, safe.l1_origin.number, safe.number)
                    earlier = self._find(_AT_L1, MAX_NUMBER if first is None else first.l1_block.number - 1)
                    if first is None and write.l1_genesis is None:
                        ended_at = earlier
                    self._apply(safe_head_entries.reset(write, first, earlier))
                case safe_head_entries.KeepSafeHeads():
                    self._apply(safe_head_entries.keep(write))
        return ended_at

    def at_l1(self, number: int) -> safe_head_entries.SafeHeadEntry | None:
        """Return the last entry at or below an L1 block [SDB5]. Raises HistoryUnavailableError in a gap [SDB15]."""
        with self._errors():
            self._raise_in_gap(_IN_GAP_OF_L1, number, "safe head history unavailable")
            return self._find(_AT_L1, min(number, MAX_NUMBER))

    def find(self, wanted: safe_head_entries.FindSafeHeads) -> safe_head_entries.FoundSafeHeads:
        """Return the entries at which derivation may resume after EL sync [SDB9]."""
        highest = MAX_NUMBER if wanted.below is None else wanted.below - 1
        with self._errors():
            return safe_head_entries.FoundSafeHeads(
                self._find(_AT_L1, highest), self._find(_L1_OF, min(wanted.number, MAX_NUMBER))
            )

    def l1_of(self, number: int) -> safe_head_entries.SafeHeadEntry | None:
        """Return the first entry that has reached an L2 block. Raises HistoryUnavailableError [SDB6, SDB15]."""
        with self._errors():
            self._raise_in_gap(_IN_GAP_OF_L2, number, L1_HISTORY_UNAVAILABLE)
            result = self._find(_L1_OF, min(number, MAX_NUMBER))
            if result is not None and result.safe_head.number > number and not self._has_earlier(result):
                raise HistoryUnavailableError(L1_HISTORY_UNAVAILABLE)
            return result

    def _has_earlier(self, entry: safe_head_entries.SafeHeadEntry) -> bool:
        return self._find(_AT_L1, entry.l1_block.number - 1) is not None

    def _raise_in_gap(self, query: str, number: int, text: str) -> None:
        wanted = min(number, MAX_NUMBER)
        if self._connection.execute(query, (wanted, wanted)).fetchone() is not None:
            raise HistoryUnavailableError(text)

    def _apply(self, change: safe_head_entries.EntriesChange) -> None:
        execute = self._connection.execute
        execute("delete from safe_heads where l1_number >= ?", (change.delete_from,))
        execute("delete from gaps where l1_after > ? or l2_first > ?", (change.delete_from, change.end))
        execute("update gaps set l2_last = ? where l2_last > ?", (change.end, change.end))
        for entry in change.put:
            number = entry.l1_block.number
            execute("insert or replace into safe_heads values (?, ?, ?, ?)", _row(entry))
            # What became safe after an L1 block, and not after it, became safe with it.
            execute("delete from gaps where l1_after = ? and l1_until is null", (number,))
            execute("update gaps set l1_until = ? where coalesce(l1_until, ?) > ?", (number, MAX_NUMBER, number))
        if change.gap is not None:
            execute("delete from gaps where l1_until is null")
            execute("insert into gaps values (?, ?, ?, ?)", msgspec.structs.astuple(change.gap))

    def _find(self, query: str, *values: int) -> safe_head_entries.SafeHeadEntry | None:
        row = self._connection.execute(query, values).fetchone()
        if row is None:
            return None
        l1_number, l1_hash, l2_number, l2_hash = row
        if not is_block(l1_number, l1_hash) or not is_block(l2_number, l2_hash):
            raise sqlite3.DatabaseError("an entry is no pair of blocks: remove the file")
        return safe_head_entries.SafeHeadEntry(BlockId(l1_number, l1_hash), BlockId(l2_number, l2_hash))

    def _check_chain(self, chain_id: int, genesis: bytes) -> None:
        """Raise an error for the file of another chain [SDB12]."""
        with self._errors():
            result = self._connection.execute("select chain_id, genesis from chain").fetchone()
        its_id, its_genesis = result or (0, b"")
        if not is_block(its_id, its_genesis):
            raise StoreError(f"{WHAT} {self._path} is damaged (its chain is unreadable): remove it ({OPTION})")
        if result != (chain_id, genesis):
            raise StoreError(
                f"{WHAT} {self._path} is of chain {its_id} with genesis {to_hex(its_genesis)}, "
                f"not of chain {chain_id} with genesis {to_hex(genesis)}: give each chain its own ({OPTION})"
            )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except SQLITE_ERRORS as error:
            raise StoreError(f"{WHAT} {self._path}: {error} ({OPTION})") from None


def _row(entry: safe_head_entries.SafeHeadEntry) -> tuple[int, bytes, int, bytes]:
    return entry.l1_block.number, entry.l1_block.hash, entry.safe_head.number, entry.safe_head.hash


class SafeHeadDatabase:
    """The file of `safedb_path`, opened by the first call; by the next one where that fails."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._store: SafeHeadStore | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="safe head database")

    async def write(self, write: safe_head_entries.SafeHeadWrite) -> bool:
        """Make a change; it is on disk when this returns True. Raises TemporaryError when the file fails."""
        ended_at = await self._call(lambda store: store.write(write))
        if ended_at is not None and isinstance(write, safe_head_entries.ResetSafeHeads):
            what = "has a gap" if write.supervised else "is cleared"
            log.warn(
                f"the safe head database {what}: blocks became safe since its last entry that it lacks",
                code=Code.SAFEDB_GAP.text,
                last=ended_at.safe_head,
                derived_from=ended_at.l1_block,
                safe=write.safe,
            )
        return True

    async def find(self, wanted: safe_head_entries.FindSafeHeads) -> safe_head_entries.FoundSafeHeads:
        """Return the entries at which derivation may resume. Raises TemporaryError when the file fails."""
        return await self._call(lambda store: store.find(wanted))

    async def at_l1(self, request: SafeHeadRequest) -> SafeHeadResponse:
        """optimism_safeHeadAtL1Block [RPC35]."""
        failed = f"failed to get safe head at l1 block {hex(request.number)}: "
        return await self._respond(request.id, lambda store: store.at_l1(request.number), NOT_FOUND, failed)

    async def l1_of(self, request: L1AtSafeHeadRequest) -> SafeHeadResponse:
        """Return the record of superroot_atTimestamp's L1 block [RPC44, SDB6]."""
        return await self._respond(request.id, lambda store: store.l1_of(request.number), L1_NOT_FOUND)

    async def _respond(
        self,
        number: int,
        read: Callable[[SafeHeadStore], safe_head_entries.SafeHeadEntry | None],
        missing: str,
        failed: str = "",
    ) -> SafeHeadResponse:
        result, error = None, missing
        try:
            result = await self._run(read)
        except StoreError as failure:
            error = f"{failed}{failure}"
        except HistoryUnavailableError as failure:
            error = str(failure)
        if result is None:
            return SafeHeadResponse(number, error, _NO_BLOCK, _NO_BLOCK)
        return SafeHeadResponse(number, None, result.l1_block, result.safe_head)

    async def close(self, seconds: float) -> None:
        """Close the file, and wait up to `seconds` for a call that is open."""
        closing = self._thread.submit(self._close)
        self._thread.shutdown(wait=False)
        await asyncio.wait((asyncio.wrap_future(closing),), timeout=seconds)

    async def _call(self, use: Callable[[SafeHeadStore], T]) -> T:
        try:
            return await self._run(use)
        except StoreError as error:
            raise TemporaryError(str(error), Code.SAFEDB) from None

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
