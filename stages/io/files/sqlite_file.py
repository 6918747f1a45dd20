"""Opens SQLite databases of this node; one that is in use, of another kind or damaged is refused, and not changed."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rollup_node.stages.io.files.private_files import check_private_file, create_private_file, why_unusable

SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What sqlite3 raises; the second when a damaged file's bytes are in the message of the first."""

MEMORY = ":memory:"
_BUSY_TIMEOUT = 2.0
_HASH_SIZE = 32


class StoreError(Exception):
    """The file cannot be used; the text says why and what to do."""


class DamagedFileError(StoreError):
    """A file of this kind whose content is damaged."""


@dataclass(frozen=True)
class FileKind:
    """A kind of database, which `what` and `option` name to operators, and the id `application` in its files.

    `schema`, of a `version`, is executed at each opening, `first` in a new file alone: what a file lacks then is
    damage. With `synchronous` normal the last commits may be lost with the power."""

    what: str
    option: str
    application: int
    schema: str
    synchronous: Literal["normal", "full"] = "normal"
    version: int = 1
    first: str = ""


def open_sqlite(path: str, kind: FileKind, *, check: bool = True, create: bool = True) -> sqlite3.Connection:
    """Open a file or MEMORY; one process at a time can have it open.

    A file that is missing or empty is created, or refused without `create`.

    The connection may be used by any thread, by one at a time; it begins no transactions by itself. `check` reads the
    whole file for damage. Raises DamagedFileError, and StoreError for a file that cannot be used for another reason."""
    what, option = kind.what, kind.option
    try:
        if path != MEMORY:
            _make_private(path, create)
        return _connect(path, kind, check, create)
    except OSError as error:
        raise StoreError(f"{what} {path}: {why_unusable(path, error)} ({option})") from None
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise StoreError(f"{what} {path} is in use by another node: give each its own ({option})") from None
        raise StoreError(f"{what} {path}: {error} ({option})") from None
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        if not _is_of_kind(path, kind):
            raise _other_kind(path, kind) from None
        raise DamagedFileError(f"{what} {path} is damaged ({error}): remove it ({option})") from None


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Make all changes of the body as one, or none of them if it raises."""
    connection.execute("begin immediate")
    try:
        yield
        connection.execute("commit")
    except BaseException:
        with suppress(*SQLITE_ERRORS):
            connection.execute("rollback")
        raise


def is_block(number: object, block_hash: object) -> bool:
    """Return whether two columns have a block's number and hash: SQLite keeps any type in any column."""
    return type(number) is int and number >= 0 and type(block_hash) is bytes and len(block_hash) == _HASH_SIZE


def _make_private(path: str, create: bool) -> None:
    """Create the file if it is missing, for its owner alone. Raises UnsafeFileError, also for names SQLite derives."""
    Path(path).absolute().parent.mkdir(parents=True, exist_ok=True)
    for end in ("", "-wal", "-shm", "-journal"):
        check_private_file(path + end)
    if create:
        with suppress(FileExistsError):
            create_private_file(path, b"")


def _connect(path: str, kind: FileKind, check: bool, create: bool) -> sqlite3.Connection:
    if not create and not (os.path.exists(path) and os.path.getsize(path)):
        raise StoreError(f"{kind.what} {path} is gone since the start: start the node again ({kind.option})")
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("pragma locking_mode = exclusive")
        is_new = _check_header(connection, path, kind, check)
        connection.execute("pragma journal_mode = wal")
        connection.execute(f"pragma synchronous = {kind.synchronous}")
        connection.execute("pragma journal_size_limit = 1048576")
        # One transaction: a process that is killed here leaves a new file, never one of no kind or version.
        marks = f"pragma application_id = {kind.application}; pragma user_version = {kind.version};"
        marks = f"{marks} {kind.first}" if is_new else ""
        connection.executescript(f"begin immediate; {marks} {kind.schema} commit;")
    except BaseException:
        connection.close()
        raise
    return connection


def _check_header(connection: sqlite3.Connection, path: str, kind: FileKind, check: bool) -> bool:
    """Return whether the file is new. Raises StoreError for another kind or version, DatabaseError if damaged."""
    (application,) = connection.execute("pragma application_id").fetchone()
    (version,) = connection.execute("pragma user_version").fetchone()
    (tables,) = connection.execute("select count(*) from sqlite_master").fetchone()
    if (application, version) == (0, 0) and not tables:
        return True
    if application != kind.application:
        raise _other_kind(path, kind)
    if version != kind.version:
        raise StoreError(f"{kind.what} {path} is of version {version}, not {kind.version}: remove it ({kind.option})")
    if check and connection.execute("pragma quick_check(1)").fetchone() != ("ok",):
        raise sqlite3.DatabaseError("the check of its pages failed")
    return False


def _other_kind(path: str, kind: FileKind) -> StoreError:
    return StoreError(f"{path} is no {kind.what}: give another path ({kind.option})")


def _is_of_kind(path: str, kind: FileKind) -> bool:
    with suppress(OSError), open(path, "rb") as file:
        header = file.read(72)
        return header.startswith(b"SQLite format 3\0") and header[68:72] == kind.application.to_bytes(4, "big")
    return False
