"""The interop database in a thread: what fails is said, never guessed [VDB1 to VDB3]."""

import sqlite3
from pathlib import Path

import pytest

from rollup_node.stages.interop.io.store import InteropStore
from rollup_node.stages.interop.process.database import InteropDatabase
from rollup_node.stages.interop.rounds import StoreState
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import CriticalError, TemporaryError
from tests.support.interop.values import dependency_set, member

CONFIG = dependency_set(member(1))


@pytest.fixture(autouse=True)
def _file(tmp_path: Path) -> None:
    """Make the file, as a start does."""
    InteropStore(str(tmp_path / "interop"), CONFIG).close()


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_file_that_has_gone_in_service_ends_the_node(tmp_path: Path, is_empty: bool) -> None:
    """[VDB4]: without its denied blocks, and with chains that are derived on, wrong blocks would count as verified."""
    path = tmp_path / "interop"
    for file in tmp_path.iterdir():
        file.unlink()
    if is_empty:
        path.touch(0o600)
    with pytest.raises(CriticalError, match=r"is gone since the start: start the node again \(data-dir\)") as raised:
        InteropDatabase(str(path), CONFIG)
    assert raised.value.code is Code.INTEROP_STORE and path.exists() is is_empty


async def test_what_is_asked_is_answered_until_it_is_closed(tmp_path: Path) -> None:
    database = InteropDatabase(str(tmp_path / "interop"), CONFIG)
    assert await database.run(InteropStore.state) == StoreState({})
    await database.close(5.0)
    InteropStore(str(tmp_path / "interop"), CONFIG).close()


def test_a_file_in_use_ends_the_process(tmp_path: Path) -> None:
    """[VDB2]"""
    store = InteropStore(str(tmp_path / "interop"), CONFIG)
    with pytest.raises(CriticalError, match="in use by another node") as raised:
        InteropDatabase(str(tmp_path / "interop"), CONFIG)
    assert raised.value.code is Code.INTEROP_STORE
    store.close()


async def test_an_error_in_service_is_temporary(tmp_path: Path) -> None:
    database = InteropDatabase(str(tmp_path / "interop"), CONFIG)
    database.store._connection.execute("drop table progress")
    with pytest.raises(TemporaryError, match=r"interop database .*progress.*\(data-dir\)") as raised:
        await database.run(InteropStore.state)
    assert raised.value.code is Code.INTEROP_STORE
    await database.close(5.0)
    with pytest.raises(sqlite3.ProgrammingError):
        database.store._connection.execute("select 1")
