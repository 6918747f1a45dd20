"""SQLite files: ownership, atomic writes, damage, errors."""

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from rollup_node.stages.io.files import sqlite_file
from rollup_node.stages.io.files.sqlite_file import FileKind, StoreError
from rollup_node.stages.p2p.storage.io.database import SqliteFile

KIND = FileKind("box of things", "p2p.things", 77, "create table if not exists things (name text primary key);")


def database(path: Path | str) -> SqliteFile:
    return SqliteFile(str(path), KIND)


def test_data_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "things"
    first = database(path)
    first.write("insert into things values (?)", ("a",))
    first.write_all([("insert into things values (?)", (name,)) for name in "bc"])
    first.close()
    second = database(path)
    assert second.read("select name from things order by name") == [("a",), ("b",), ("c",)]
    second.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_memory_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = database("memory")
    store.write("insert into things values ('a')")
    assert store.read("select name from things") == [("a",)]
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_changes_are_atomic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = database(tmp_path / "things")
    store.write_all([("insert into things values ('a')", ()), ("insert into nothing values (1)", ())])
    assert store.problem is not None and "box of things" in store.problem
    assert store.read("select * from things") == []
    store.write("insert into things values ('b')")
    assert store.problem is None
    assert store.read("select broken") == []
    store.close()
    assert "Traceback" not in capsys.readouterr().err


def test_one_file_for_one_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "_BUSY_TIMEOUT", 0.05)
    first = database(tmp_path / "things")
    with pytest.raises(StoreError, match="in use by another node"):
        database(tmp_path / "things")
    first.close()


@pytest.mark.parametrize("content", [b"my network key\n", b"SQLite format 3\0" + bytes(500)])
def test_other_files_are_refused_and_unchanged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "things"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is no box of things"):
        database(path)
    assert path.read_bytes() == content


def test_other_databases_are_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "things"
    other = sqlite3.connect(path)
    other.execute("create table others (a)")
    other.commit()
    other.close()
    with pytest.raises(StoreError, match="is no box of things"):
        database(path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match=r"p2p\.things"):
        database(tmp_path / "folder")


def test_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "things"
    database(path).close()
    other = sqlite3.connect(path)
    other.execute("pragma user_version = 9")
    other.close()
    with pytest.raises(StoreError, match="of version 9"):
        database(path)


def test_a_damaged_file_is_moved_aside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "things"
    first = database(path)
    first.write_all([("insert into things values (?)", (f"{number} " * 20,)) for number in range(500)])
    first.close()
    raw = bytearray(path.read_bytes())
    assert len(raw) > 8192
    raw[4096:12288] = os.urandom(8192)
    path.write_bytes(raw)
    second = database(path)
    assert second.read("select count(*) from things") == [(0,)]
    second.write("insert into things values ('a')")
    second.close()
    assert (tmp_path / "things.damaged").read_bytes() == raw
    assert "damaged" in capsys.readouterr().err


def test_a_full_disk_stops_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = database(tmp_path / "things")
    store.write("pragma max_page_count = 3")
    for number in range(300):
        store.write("insert into things values (?)", (f"{number}" * 50,))
    assert store.problem is not None and "full" in store.problem
    assert capsys.readouterr().err.count("full") == 1
    store.close()


def test_damage_that_is_not_text_is_damage_too(tmp_path: Path) -> None:
    """The database names a broken table by the bytes of its name, and these need not be text."""
    path = tmp_path / "things"
    first = database(path)
    first.close()
    raw = path.read_bytes().replace(b"CREATE TABLE", b"CREXTE TABLE")
    path.write_bytes(raw.replace(b"things", b"\xff\xfe\xfdngs"))
    second = database(path)
    assert second.read("select count(*) from things") == [(0,)]
    second.close()
    assert (tmp_path / "things.damaged").exists()


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
def test_linked_files_are_refused(tmp_path: Path, end: str) -> None:
    (tmp_path / f"things{end}").symlink_to("absent")
    with pytest.raises(StoreError, match="is a symbolic link"):
        database(tmp_path / "things")
    assert [path.name for path in tmp_path.iterdir()] == [f"things{end}"]


def test_a_file_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    database(tmp_path / "things").close()
    (tmp_path / "things").chmod(0o622)
    with pytest.raises(StoreError, match=r"things: others may write to it \(mode 622\).*\(p2p\.things\)"):
        database(tmp_path / "things")
