"""Files as bytes or as hex text."""

from pathlib import Path

import pytest

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.tools.commands import input_files
from rollup_node.tools.commands.input_files import NotHex, TooLarge, read_content


def _read(tmp_path: Path, data: bytes, limit: int = 1000) -> bytes:
    path = tmp_path / "file"
    path.write_bytes(data)
    return read_content(str(path), limit)


@pytest.mark.parametrize("text", [b"0x00fF10", b"00FF10", b" \n0X00 ff\r\n 1\n0\n"])
def test_hex_text(tmp_path: Path, text: bytes) -> None:
    assert _read(tmp_path, text) == b"\x00\xff\x10"


@pytest.mark.parametrize("data", [b"", b"\x00\xff\x10", b"xyz", b"ab\x00", b"0\x00x"])
def test_bytes(tmp_path: Path, data: bytes) -> None:
    assert _read(tmp_path, data) == data


def test_nothing_behind_0x(tmp_path: Path) -> None:
    assert _read(tmp_path, b"0x\n") == b""


def test_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_files, "_PIECE", 7)
    data = bytes(range(256))
    assert _read(tmp_path, data) == data
    assert _read(tmp_path, b"0x" + data.hex().encode()) == data
    assert _read(tmp_path, data.hex(" ").encode()) == data


def test_malformed_hex_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotHex) as failure:
        _read(tmp_path, b"0x00zz")
    assert failure.value.offset == 2
    with pytest.raises(NotHex):
        _read(tmp_path, b"0x000")
    monkeypatch.setattr(input_files, "_PIECE", 8)
    with pytest.raises(NotHex) as failure:
        _read(tmp_path, b"0x0000ab00zz")
    assert failure.value.offset == 8


def test_too_large(tmp_path: Path) -> None:
    assert len(_read(tmp_path, bytes(1000))) == 1000
    assert len(_read(tmp_path, b"00" * 1000)) == 1000
    for data in (bytes(1001), b"00" * 1001):
        with pytest.raises(TooLarge):
            _read(tmp_path, data)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"cannot read .*nowhere: No such file"):
        read_content(str(tmp_path / "nowhere"), 10)
    with pytest.raises(SetupError, match="Is a directory"):
        read_content(str(tmp_path), 10)
    with pytest.raises(SetupError, match=r"cannot read 'a.x00b'"):
        read_content("a\0b", 10)
