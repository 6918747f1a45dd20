"""The last blocks, in memory and in a file."""

from pathlib import Path

import pytest

from rollup_node.stages.protocol.types import UNKNOWN_HASH, BlockId, L2BlockContent, L2BlockRef
from rollup_node.tools.history import recent_blocks
from rollup_node.tools.history.recent_blocks import RecentBlocks, read_blocks


def block(number: int, *transactions: bytes) -> L2BlockContent:
    ref = L2BlockRef(UNKNOWN_HASH, number, UNKNOWN_HASH, 2 * number, BlockId(5, b"\x01" * 32), 0)
    return L2BlockContent(ref, transactions)


def test_the_oldest_leave_by_number_and_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_blocks, "MAX_BLOCKS", 3)
    monkeypatch.setattr(recent_blocks, "MAX_BYTES", 10)
    found = RecentBlocks(block(number) for number in range(5))
    assert [number for number in range(5) if found.get(number)] == [2, 3, 4]
    found.add(block(5, b"12345", b"123456"))
    assert [number for number in range(6) if found.get(number)] == []
    found.add(block(6, b"1"))
    found.add(block(6, b"2"))
    assert found.get(6) == block(6, b"1")


def test_a_file_has_them(tmp_path: Path) -> None:
    RecentBlocks([block(1, b"a", b"b"), block(2)]).write(tmp_path / "a")
    found = read_blocks(tmp_path / "a")
    assert (found.get(1), found.get(2), found.get(3)) == (block(1, b"a", b"b"), block(2), None)


def test_a_file_of_anything_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"\S"):
        read_blocks(tmp_path / "a")
    monkeypatch.setattr(recent_blocks, "MAX_FILE_BYTES", 7)
    with pytest.raises(ValueError, match="it has more than 7 bytes"):
        read_blocks(tmp_path / "a")
    with pytest.raises(FileNotFoundError):
        read_blocks(tmp_path / "none")
