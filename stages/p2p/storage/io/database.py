"""A small SQLite database in one file, or in memory, for data that should survive a restart but need not. A file that
is in use or not ours is refused, a damaged one is moved aside; write errors at run time are reported in `problem` and
stop nothing."""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.private_files import check_private_file, create_private_file
from rollup_node.stages.p2p.config import MEMORY

_VERSION = 1
_BUSY_TIMEOUT = 2.0
_SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What sqlite3 raises; the second when a damaged file's bytes are in the message of the first."""

log = get_logger("p2p")


class StoreError(Exception):
    """The file cannot be used; the text says why and what to do."""


class SqliteFile:
    """A database with its tables. `what` and `option` name it to operators; `application` is the 32-bit application id
    that marks our files. One process at a time can open a file. Raises StoreError."""

    def __init__(self, path: str, *, what: str, option: str, application: int, schema: str) -> None:
        self.problem: str | None = None
        self._what, self._option = what, option
        self._application, self._schema = application, schema
        self._connection = self._open(path)

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def read(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query; none when the file fails."""
        try:
            return self._connection.execute(query, values).fetchall()
        except _SQLITE_ERRORS as error:
            self._report_error(error)
            return []

    def write(self, query: str, values: Sequence[Any] = ()) -> None:
        """Executes one change."""
        with self._record_errors():
            self._connection.execute(query, values)

    def write_all(self, changes: Iterable[tuple[str, Sequence[Any]]]) -> None:
        """Executes changes in one transaction."""
        with self._record_errors():
            try:
                self._connection.execute("begin")
                for query, values in changes:
                    self._connection.execute(query, values)
                self._connection.execute("commit")
            except _SQLITE_ERRORS:
                with suppress(*_SQLITE_ERRORS):
                    self._connection.execute("rollback")
                raise

    @contextmanager
    def _record_errors(self) -> Iterator[None]:
        try:
            yield
            self.problem = None
        except _SQLITE_ERRORS as error:
            self._report_error(error)

    def _report_error(self, error: Exception) -> None:
        problem = f"the {self._what} cannot be used: {error}"
        if problem != self.problem:
            log.warn(problem)
        self.problem = problem

    def _open(self, path: str) -> sqlite3.Connection:
        if path == MEMORY:
            return self._connect(":memory:")
        try:
            _make_private(path)
            return self._connect(path)
        except OSError as error:
            raise StoreError(f"{self._what} {path}: {error.strerror} ({self._option})") from None
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise StoreError(
                    f"{self._what} {path} is in use by another node: give each its own ({self._option})"
                ) from None
            raise StoreError(f"{self._what} {path}: {error} ({self._option})") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            return self._replace_damaged(path, str(error))

    def _connect(self, path: str) -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT, isolation_level=None)
        try:
            connection.execute("pragma locking_mode = exclusive")
            self._check_header(connection, path)
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = normal")
            connection.execute("pragma journal_size_limit = 1048576")
            connection.executescript(self._schema)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_header(self, connection: sqlite3.Connection, path: str) -> None:
        """Marks a new file as ours. Raises StoreError for a file of another kind or version, DatabaseError for a
        damaged one."""
        (application,) = connection.execute("pragma application_id").fetchone()
        (version,) = connection.execute("pragma user_version").fetchone()
        (tables,) = connection.execute("select count(*) from sqlite_master").fetchone()
        if (application, version) == (0, 0) and not tables:
            connection.execute(f"pragma application_id = {self._application}")
            connection.execute(f"pragma user_version = {_VERSION}")
        elif application != self._application:
            raise StoreError(f"{path} is not a {self._what}: give another path ({self._option})")
        elif version != _VERSION:
            raise StoreError(f"{self._what} {path} is of version {version}, not {_VERSION}: remove it ({self._option})")
        elif connection.execute("pragma quick_check(1)").fetchone() != ("ok",):
            raise sqlite3.DatabaseError("the file is damaged")

    def _replace_damaged(self, path: str, error: str) -> sqlite3.Connection:
        """Moves a damaged file of ours aside and starts a new one; refuses a file of another kind."""
        header = Path(path).read_bytes()[:72] if Path(path).is_file() else b""
        if not header.startswith(b"SQLite format 3\0") or header[68:72] != self._application.to_bytes(4, "big"):
            raise StoreError(f"{path} is not a {self._what}: give another path ({self._option})")
        aside = f"{path}.damaged"
        for end in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.replace(path + end, aside + end)
        log.warn(f"the {self._what} is damaged, starting a new one", path=path, moved_to=aside, error=error)
        _make_private(path)
        return self._connect(path)


def _make_private(path: str) -> None:
    """Creates the file if it is missing, readable by its owner alone. Raises UnsafeFileError for a file that somebody
    else may control, under this name or those that SQLite derives from it."""
    Path(path).absolute().parent.mkdir(parents=True, exist_ok=True)
    for end in ("", "-wal", "-shm", "-journal"):
        check_private_file(path + end)
    with suppress(FileExistsError):
        create_private_file(path, b"")
