"""The file of signed blocks: what it refuses holds over restarts, and also while it cannot be written."""

import sqlite3
from pathlib import Path

import pytest

from rollup_node.stages.io.sqlite_file import StoreError
from rollup_node.stages.p2p.signer.io.signed_blocks_file import SignedBlocksFile
from rollup_node.stages.p2p.signer.signed_blocks import MAX_HEIGHTS, BlockRecord
from rollup_node.stages.protocol.types import BlockId

GENESIS = b"\x99" * 32
ORIGIN = BlockId(100, b"\xee" * 32)


def record(number: int, branch: int = 0, parent: int = 0, origin: BlockId | None = ORIGIN) -> BlockRecord:
    return BlockRecord(number, bytes([branch, number % 256]) * 16, bytes([parent, (number - 1) % 256]) * 16, origin)


def test_signed_and_refused_blocks_survive_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "signed")
    file = SignedBlocksFile(GENESIS, path)
    assert [file.permit(record(number)) for number in (1, 2, 3)] == [None] * 3
    assert file.permit(record(4, origin=None)) is None
    assert file.permit(record(2, branch=1)) == record(2)
    file.close()
    file = SignedBlocksFile(GENESIS, path)
    assert file.permit(record(3)) is None, "the same block"
    assert file.permit(record(4, branch=1)) == record(4, origin=None)
    assert file.permit(record(3, branch=1, parent=1)) == record(2, branch=1)._replace(is_refused=True)
    assert file.permit(record(3, branch=2, origin=BlockId(99, b"\xdd" * 32))) is None
    assert file.permit(record(5, branch=1, parent=1)) is None
    assert file.problem is None
    file.close()


def test_chains_are_apart(tmp_path: Path) -> None:
    path = str(tmp_path / "signed")
    file = SignedBlocksFile(GENESIS, path)
    assert file.permit(record(2 * MAX_HEIGHTS)) is None
    file.close()
    file = SignedBlocksFile(b"\x98" * 32, path)
    assert file.permit(record(1)) is None and file.permit(record(1, branch=1)) == record(1)
    file.close()
    file = SignedBlocksFile(GENESIS, path)
    assert file.permit(record(2 * MAX_HEIGHTS, branch=1)) == record(2 * MAX_HEIGHTS)
    file.close()


def test_the_file_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "signed"
    file = SignedBlocksFile(GENESIS, str(path))
    for number in (1, 2, MAX_HEIGHTS + 1):
        assert file.permit(record(number)) is None
    file.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("select number from blocks order by number").fetchall() == [(2,), (MAX_HEIGHTS + 1,)]
    connection.close()


def test_a_write_error_is_reported_and_what_is_known_still_counts(tmp_path: Path) -> None:
    path = tmp_path / "signed"
    file = SignedBlocksFile(GENESIS, str(path))
    assert file.permit(record(1)) is None
    file._database.write("drop table blocks")
    assert file.permit(record(2)) is None
    assert file.problem is not None and file.problem.startswith("the file of signed blocks cannot be used: ")
    assert file.permit(record(2, branch=1)) == record(2)
    file.close()


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "signed").write_text("a text of the user's")
    with pytest.raises(StoreError, match="is not a file of signed blocks: give another path"):
        SignedBlocksFile(GENESIS, str(tmp_path / "signed"))


def test_a_damaged_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    """[SGN11] A new one in its place would let lost blocks be signed again."""
    path = tmp_path / "signed"
    file = SignedBlocksFile(GENESIS, str(path))
    for number in range(400):
        file.permit(record(number + 1))
    file.close()
    raw = bytearray(path.read_bytes())
    raw[4096:] = b"\xa5" * len(raw[4096:])
    path.write_bytes(raw)
    with pytest.raises(StoreError, match="is damaged"):
        SignedBlocksFile(GENESIS, str(path))
    assert path.read_bytes() == raw and [each.name for each in tmp_path.iterdir()] == ["signed"]


def test_in_memory_nothing_is_kept() -> None:
    file = SignedBlocksFile(GENESIS)
    assert file.permit(record(1)) is None and file.permit(record(1, branch=1)) == record(1)
    file.close()
