"""The safe head database: an SQLite file of this chain with one row for each L1 block [SDB2, SDB12]."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rollup_node.stages.engine.safedb.entries import (
    EntriesChange,
    FindSafeHeads,
    FoundSafeHeads,
    KeepSafeHeads,
    RecordSafeHead,
    ResetSafeHeads,
    SafeHeadEntry,
    SafeHeadWrite,
    keep,
    record,
    reset,
)
from rollup_node.stages.io.sqlite_file import SQLITE_ERRORS, DamagedFileError, FileKind, StoreError, open_sqlite
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import BlockId

WHAT, OPTION = "safe head database", "safedb.path"
MAX_NUMBER = 2**63 - 1
"""SQLite's integers end here."""

_APPLICATION = 0x52505344
_SCHEMA = """
create table if not exists safe_heads
  (l1_number integer primary key, l1_hash blob not null, l2_number integer not null, l2_hash blob not null);
create index if not exists safe_heads_by_l2 on safe_heads (l2_number);
create table if not exists chain (chain_id integer not null, genesis blob not null);
insert into chain select {chain_id}, x'{genesis}' where not exists (select 1 from chain);
"""
_SELECT = "select l1_number, l1_hash, l2_number, l2_hash from safe_heads"
_AT_L1 = f"{_SELECT} where l1_number <= ? order by l1_number desc limit 1"
_L1_OF = f"{_SELECT} where l2_number >= ? order by l2_number, l1_number limit 1"
# The index would be searched for all higher L2 numbers; the entries wanted follow closely in the order of L1.
_FIRST_OF_RESET = f"{_SELECT} not indexed where l1_number >= ? and l2_number >= ? order by l1_number limit 1"


class HistoryUnavailableError(Exception):
    """The block became safe before the record begins."""


class SafeHeadStore:
    """The database in the file `path`. All errors are StoreErrors, with a text that names the option; what was written
    before one is unchanged."""

    def __init__(self, path: str, rollup: RollupConfig, *, check: bool = False) -> None:
        """Opens the file, which is created if it is missing; `check` reads all of it for damage."""
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
        """Closes the file."""
        self._connection.close()

    def write(self, write: SafeHeadWrite) -> SafeHeadEntry | None:
        """Makes the change that a write asks for, in one transaction; it is on disk when this returns [SDB3]. Returns
        the entry where the record ended if it is cleared because of a gap [SDB7]."""
        ended_at: SafeHeadEntry | None = None
        with self._errors(), self._transaction():
            match write:
                case RecordSafeHead(entry=entry):
                    self._apply(record(entry))
                case ResetSafeHeads(safe=safe):
                    first = self._find(_FIRST_OF_RESET, safe.l1_origin.number, safe.number)
                    if first is None and write.l1_genesis is None:
                        ended_at = self._find(_AT_L1, MAX_NUMBER)
                    self._apply(reset(write, first, first is not None and self._has_earlier(first)))
                case KeepSafeHeads():
                    self._apply(keep(write))
        return ended_at

    def at_l1(self, number: int) -> SafeHeadEntry | None:
        """The last entry at or below an L1 block; None if there is none [SDB5]."""
        with self._errors():
            return self._find(_AT_L1, min(number, MAX_NUMBER))

    def find(self, wanted: FindSafeHeads) -> FoundSafeHeads:
        """The entries at which derivation may resume after EL sync [SDB9]."""
        with self._errors():
            return FoundSafeHeads(self._find(_AT_L1, MAX_NUMBER), self._find(_L1_OF, min(wanted.number, MAX_NUMBER)))

    def l1_of(self, number: int) -> SafeHeadEntry | None:
        """The first entry whose safe head has reached an L2 block; None if it is above the last entry. Raises
        HistoryUnavailableError for a block that was safe before the first entry [SDB6]."""
        with self._errors():
            found = self._find(_L1_OF, min(number, MAX_NUMBER))
            if found is not None and found.safe_head.number > number and not self._has_earlier(found):
                raise HistoryUnavailableError("l1 at safe head history unavailable")
            return found

    # --- rows ------------------------------------------------------------------------------------------------------

    def _has_earlier(self, entry: SafeHeadEntry) -> bool:
        return self._find(_AT_L1, entry.l1_block.number - 1) is not None

    def _apply(self, change: EntriesChange) -> None:
        self._connection.execute("delete from safe_heads where l1_number >= ?", (change.delete_from,))
        for entry in change.put:
            row = (entry.l1_block.number, entry.l1_block.hash, entry.safe_head.number, entry.safe_head.hash)
            self._connection.execute("insert or replace into safe_heads values (?, ?, ?, ?)", row)

    def _find(self, query: str, *values: int) -> SafeHeadEntry | None:
        row = self._connection.execute(query, values).fetchone()
        if row is None:
            return None
        l1_number, l1_hash, l2_number, l2_hash = row
        return SafeHeadEntry(BlockId(l1_number, l1_hash), BlockId(l2_number, l2_hash))

    def _check_chain(self, chain_id: int, genesis: bytes) -> None:
        """[SDB12]"""
        with self._errors():
            found = self._connection.execute("select chain_id, genesis from chain").fetchone()
        its_id, its_genesis = found
        if found != (chain_id, genesis):
            raise StoreError(
                f"{WHAT} {self._path} is of chain {its_id} with genesis {to_hex(its_genesis)}, "
                f"not of chain {chain_id} with genesis {to_hex(genesis)}: give each chain its own ({OPTION})"
            )

    # --- errors ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("begin immediate")
        try:
            yield
            self._connection.execute("commit")
        except BaseException:
            with suppress(*SQLITE_ERRORS):
                self._connection.execute("rollback")
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except SQLITE_ERRORS as error:
            raise StoreError(f"{WHAT} {self._path}: {error} ({OPTION})") from None
