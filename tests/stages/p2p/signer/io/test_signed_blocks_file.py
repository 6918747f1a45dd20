"""The file of signed blocks: what it refuses holds over restarts, and also while it cannot be written."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from rollup_node.stages.io.sqlite_file import StoreError
from rollup_node.stages.p2p.signer.io.signed_blocks_file import SignedBlocksFile
from rollup_node.stages.p2p.signer.signed_blocks import MAX_HEIGHTS, BlockFate, BlockRecord, SigningRequest
from rollup_node.stages.protocol.types import BlockId

GENESIS = b"\x99" * 32
ORIGIN = BlockId(100, b"\xee" * 32)


def record(number: int, branch: int = 0, parent: int = 0, origin: BlockId | None = ORIGIN) -> BlockRecord:
    return BlockRecord(number, bytes([branch, number % 256]) * 16, bytes([parent, (number - 1) % 256]) * 16, origin)


def sign(file: SignedBlocksFile, block: BlockRecord) -> str | None:
    """Decides about a block and writes that, as before a signature."""
    parent = BlockRecord(block.number - 1, block.parent_hash, bytes(32), ORIGIN, BlockFate.ANCESTOR)
    refusal = file.decide(SigningRequest(block, parent, 0), lambda _: None)
    asyncio.run(file.write())
    return refusal


def is_second(refusal: str | None) -> bool:
    return refusal is not None and "came first on the same parent" in refusal


def test_what_was_signed_and_refused_survives_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "signed")
    file = SignedBlocksFile(GENESIS, path)
    assert [sign(file, record(number)) for number in (1, 2, 3)] == [None] * 3
    assert sign(file, record(4, origin=None)) is None
    assert is_second(sign(file, record(2, branch=1)))
    file.close()
    file = SignedBlocksFile(GENESIS, path)
    assert sign(file, record(3)) is None, "the same block"
    assert is_second(sign(file, record(4, branch=1)))
    assert sign(file, record(3, branch=1, parent=1)) == "its parent was refused, and is not derived from L1"
    assert sign(file, record(3, branch=2, origin=BlockId(100, b"\xdd" * 32))) is None
    assert sign(file, record(5, branch=1, parent=1)) is None
    assert sign(file, record(4, branch=3, parent=3)) == "its parent was never seen, and is not derived from L1"
    assert file.problem is None
    file.close()


def test_the_parent_of_a_signed_block_survives_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "signed")
    file = SignedBlocksFile(GENESIS, path)
    assert sign(file, record(9)) is None
    file.close()
    file = SignedBlocksFile(GENESIS, path)
    assert sign(file, record(9, branch=1, origin=BlockId(100, b"\xdd" * 32))) is None
    file.close()


def test_a_decision_that_was_not_written_is_when_the_file_is_closed(tmp_path: Path) -> None:
    path = str(tmp_path / "signed")
    file = SignedBlocksFile(GENESIS, path)
    parent = record(0)._replace(fate=BlockFate.ANCESTOR)
    assert file.decide(SigningRequest(record(1), parent, 0), lambda _: None) is None
    file.close()
    file = SignedBlocksFile(GENESIS, path)
    assert is_second(sign(file, record(1, branch=1)))
    file.close()


def test_chains_are_apart(tmp_path: Path) -> None:
    path = str(tmp_path / "signed")
    file = SignedBlocksFile(GENESIS, path)
    assert sign(file, record(2 * MAX_HEIGHTS)) is None
    file.close()
    file = SignedBlocksFile(b"\x98" * 32, path)
    assert sign(file, record(1)) is None and is_second(sign(file, record(1, branch=1)))
    file.close()
    file = SignedBlocksFile(GENESIS, path)
    assert is_second(sign(file, record(2 * MAX_HEIGHTS, branch=1, parent=0)._replace(number=2 * MAX_HEIGHTS)))
    file.close()


def test_the_file_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "signed"
    file = SignedBlocksFile(GENESIS, str(path))
    for number in (1, 2, MAX_HEIGHTS + 1):
        assert sign(file, record(number)) is None
    file.close()
    with sqlite3.connect(path) as connection:
        found = connection.execute("select number, fate from blocks order by number").fetchall()
    connection.close()
    assert found == [(2, 0), (MAX_HEIGHTS, 2), (MAX_HEIGHTS + 1, 0)]


def test_a_write_error_is_reported_and_what_is_known_still_counts(tmp_path: Path) -> None:
    path = tmp_path / "signed"
    file = SignedBlocksFile(GENESIS, str(path))
    assert sign(file, record(1)) is None
    file._database.write("alter table blocks rename to others")
    assert sign(file, record(2)) is None
    assert file.problem is not None and file.problem.startswith("the file of signed blocks cannot be used: ")
    assert is_second(sign(file, record(2, branch=1)))
    file._database.write("alter table others rename to blocks")
    assert sign(file, record(3)) is None and file.problem is None
    file.close()
    file = SignedBlocksFile(GENESIS, str(path))
    assert is_second(sign(file, record(2, branch=1))), "it was written once that was possible"
    file.close()


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "signed")
    file = SignedBlocksFile(GENESIS, path)
    file._database.write("alter table blocks rename column fate to other")
    file.close()
    with pytest.raises(StoreError, match="the file of signed blocks cannot be used: no such column: fate"):
        SignedBlocksFile(GENESIS, path)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "signed").write_text("a text of the user's")
    with pytest.raises(StoreError, match="is not a file of signed blocks: give another path"):
        SignedBlocksFile(GENESIS, str(tmp_path / "signed"))


def test_a_damaged_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    """[SGN11] A new one in its place would let lost blocks be signed again."""
    path = tmp_path / "signed"
    file = SignedBlocksFile(GENESIS, str(path))
    for number in range(400):
        file.decide(SigningRequest(record(number + 1), record(number), 0), lambda _: None)
    file.close()
    raw = bytearray(path.read_bytes())
    raw[4096:] = b"\xa5" * len(raw[4096:])
    path.write_bytes(raw)
    with pytest.raises(StoreError, match="is damaged"):
        SignedBlocksFile(GENESIS, str(path))
    assert path.read_bytes() == raw and [each.name for each in tmp_path.iterdir()] == ["signed"]


def test_in_memory_nothing_is_kept() -> None:
    file = SignedBlocksFile(GENESIS)
    assert sign(file, record(1)) is None and is_second(sign(file, record(1, branch=1)))
    file.close()
