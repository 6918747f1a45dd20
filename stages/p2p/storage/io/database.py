"""A small SQLite database in one file, or in memory, for data that should survive a restart but need not.

A file that is in use or not ours is refused, a damaged one is moved aside; write errors at run time are reported in
`problem` and stop nothing."""

import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from rollup_node.stages.io.files.sqlite_file import MEMORY as IN_MEMORY
from rollup_node.stages.io.files.sqlite_file import SQLITE_ERRORS, DamagedFileError, FileKind, open_sqlite, transaction
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.p2p.config import MEMORY

log = Logger("p2p")


class SqliteFile:
    """A database, open in one process at a time. Raises StoreError; if it is damaged, only for a kind that is full."""

    def __init__(self, path: str, kind: FileKind) -> None:
        self.problem: str | None = None
        self._kind = kind
        self._connection = self._open(path)

    def close(self) -> None:
        self._connection.close()

    def read(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query; none when the file fails."""
        try:
            return self._connection.execute(query, values).fetchall()
        except SQLITE_ERRORS as error:
            self._report_error(error)
            return []

    def write(self, query: str, values: Sequence[Any] = ()) -> None:
        self.write_all([(query, values)])

    def write_all(self, changes: Iterable[tuple[str, Sequence[Any]]]) -> None:
        try:
            with transaction(self._connection):
                for query, values in changes:
                    self._connection.execute(query, values)
            self.problem = None
        except SQLITE_ERRORS as error:
            self._report_error(error)

    def _report_error(self, error: Exception) -> None:
        problem = f"the {self._kind.what} cannot be used: {error}"
        if problem != self.problem:
            log.warn(problem, code=Code.FILE.text)
        self.problem = problem

    def _open(self, path: str) -> sqlite3.Connection:
        if path == MEMORY:
            return open_sqlite(IN_MEMORY, self._kind)
        try:
            return open_sqlite(path, self._kind)
        except DamagedFileError as error:
            if self._kind.synchronous == "full":
                raise
            return self._replace_damaged(path, str(error))

    def _replace_damaged(self, path: str, error: str) -> sqlite3.Connection:
        """Move a damaged file of ours aside and start a new one."""
        aside = f"{path}.damaged"
        for end in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.replace(path + end, aside + end)
        text = f"the {self._kind.what} is damaged, starting a new one"
        log.warn(text, code=Code.FILE.text, path=path, moved_to=aside, error=error)
        return open_sqlite(path, self._kind)
