"""Files of SQLite: what is refused and left alone, what survives a kill during the creation.

Other cases are in the tests of the peer-to-peer databases, which are opened by the same function."""

import sqlite3
import threading
from pathlib import Path

import pytest

from rollup_node.stages.io.files.sqlite_file import (
    MEMORY,
    DamagedFileError,
    FileKind,
    StoreError,
    is_block,
    open_sqlite,
    transaction,
)

KIND = FileKind("box of things", "things.path", 77, "create table if not exists things (name text);", "full")


def test_a_commit_is_on_disk_in_the_file_of_its_owner(tmp_path: Path) -> None:
    """Another thread may use the connection."""
    connection = open_sqlite(str(tmp_path / "deep" / "things"), KIND)
    assert connection.execute("pragma synchronous").fetchone() == (2,)
    assert connection.execute("pragma journal_mode").fetchone() == ("wal",)
    assert (tmp_path / "deep" / "things").stat().st_mode & 0o777 == 0o600
    thread = threading.Thread(target=lambda: connection.execute("insert into things values ('a')"))
    thread.start()
    thread.join()
    assert connection.execute("select name from things").fetchall() == [("a",)]
    connection.close()


def test_a_transaction_is_made_as_one_or_not_at_all() -> None:
    connection = open_sqlite(MEMORY, KIND)
    with transaction(connection):
        connection.execute("insert into things values ('a')")
    with pytest.raises(ZeroDivisionError), transaction(connection):
        connection.execute("insert into things values ('b')")
        _ = 1 / 0
    assert connection.execute("select name from things").fetchall() == [("a",)] and not connection.in_transaction
    connection.close()


def test_columns_are_a_block_by_their_types() -> None:
    assert is_block(0, bytes(32))
    assert not any(map(is_block, (-1, True, "1", 1, 1, None), (bytes(32), bytes(32), bytes(32), bytes(31), 7, None)))


def test_a_damaged_file_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "things"
    connection = open_sqlite(str(path), KIND)
    connection.executemany("insert into things values (?)", [(f"{number} " * 20,) for number in range(500)])
    connection.close()
    raw = bytearray(path.read_bytes())
    raw[4096:12288] = bytes(range(256)) * 32
    path.write_bytes(raw)
    with pytest.raises(DamagedFileError, match=r"box of things .*things is damaged .*: remove it \(things\.path\)"):
        open_sqlite(str(path), KIND)
    open_sqlite(str(path), KIND, check=False).close()
    assert path.read_bytes()[100:] == raw[100:], "the change counter in the header may differ"


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_file_without_content_is_new(tmp_path: Path, journal: str) -> None:
    """A process was killed while it created the file: empty, or with nothing but the header of SQLite."""
    path = tmp_path / "things"
    path.touch(0o600)
    killed = sqlite3.connect(path)
    killed.execute(f"pragma journal_mode = {journal}")
    killed.close()
    connection = open_sqlite(str(path), KIND)
    assert connection.execute("pragma application_id").fetchone() == (77,)
    connection.close()


def test_a_path_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"File exists: give a path that this node may write \(things\.path\)"):
        open_sqlite(str(tmp_path / "file" / "things"), KIND)
