"""The file of --out: it has its name only when it is complete, and replaces another only with --overwrite."""

import argparse
import os
import threading
from pathlib import Path

import pytest

from rollup_node.node.options import given_files
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.tools.commands import output_file as module
from rollup_node.tools.commands.output_file import CommandOutput, NotHex, TooLarge, open_output, read_content
from rollup_node.tools.inspect.row_formats import RowFormat

Captured = pytest.CaptureFixture[str]


def opened(out: Path | str | None, json: bool = False, overwrite: bool = False) -> CommandOutput:
    return open_output(argparse.Namespace(out=None if out is None else str(out), json=json, overwrite=overwrite))


def written(path: Path, text: bytes, code: int, overwrite: bool = False) -> None:
    with opened(path, overwrite=overwrite) as output:
        assert output.file is not None
        os.write(output.file.descriptor, text)
        assert list(path.parent.glob("*.partial"))
        assert output.end(code) == code


def test_the_file_appears_when_it_is_complete(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "a.JSONL"
    written(path, b"1234", 0)
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"1234", ["a.JSONL"])
    assert capsys.readouterr().err == f'rollup-node: 4 bytes written to "{path}"\n'


def test_a_file_is_replaced_only_by_choice(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "a.csv"
    path.write_text("old")
    with pytest.raises(SetupError, match="exists: give another name, or --overwrite"):
        opened(path)
    written(path, b"new", 0, overwrite=True)
    assert path.read_text() == "new"
    assert capsys.readouterr().err.endswith("replacing an older file\n")


def test_a_file_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with pytest.raises(SetupError, match="has appeared meanwhile; the results are in"), opened(path) as output:
        path.write_text("other")
        output.end(0)
    assert path.read_text() == "other" and len(list(tmp_path.glob("*.partial"))) == 1


def test_the_results_of_a_failed_run_keep_the_temporary_name(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "a.csv"
    written(path, b"some", 1)
    (partial,) = tmp_path.iterdir()
    assert (partial.suffix, partial.read_bytes()) == (".partial", b"some")
    assert capsys.readouterr().err == f'rollup-node: the results up to here are in "{partial}"\n'


def test_without_results_nothing_is_left(tmp_path: Path, capsys: Captured) -> None:
    written(tmp_path / "a.csv", b"", 1)
    with pytest.raises(SetupError, match="no L1"), opened(tmp_path / "b.csv"):
        raise SetupError("no L1")
    assert os.listdir(tmp_path) == [] and capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("name", "flags", "error"),
    [
        ("nowhere/a.csv", {}, "cannot write .*No such file"),
        ("", {}, "does not end in"),
        ("folder.csv", {}, "is a directory"),
        ("folder.csv", {"overwrite": True}, "is a directory"),
        ("a\0.csv", {}, "does not end in"),
        (None, {"overwrite": True}, "no meaning without --out"),
    ],
)
def test_wrong_names_and_flags(name: str | None, flags: dict[str, bool], error: str, tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(SetupError, match=error):
        opened(tmp_path / name if name else name, **flags)


def test_the_form_of_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "isatty", lambda descriptor: descriptor == 1)
    assert opened(None).form is RowFormat.TABLE
    assert opened(None, json=True).form is RowFormat.JSON
    monkeypatch.setattr(os, "isatty", lambda descriptor: False)
    assert opened(None).form is RowFormat.TEXT


def _read(tmp_path: Path, data: bytes, limit: int = 1000) -> bytes:
    path = tmp_path / "file"
    path.write_bytes(data)
    return read_content(str(path), limit)


@pytest.mark.parametrize(
    ("data", "content"),
    [
        *((text, b"\x00\xff\x10") for text in (b"0x00fF10", b"00FF10", b" \n0X00 ff\r\n 1\n0\n")),
        *((data, data) for data in (b"", b"\x00\xff\x10", b"xyz", b"ab\x00", b"0\x00x")),
        (b"0x\n", b""),
    ],
)
def test_content_is_hex_text_or_bytes(tmp_path: Path, data: bytes, content: bytes) -> None:
    assert _read(tmp_path, data) == content


def test_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PIECE", 7)
    data = bytes(range(256))
    for written_data in (data, b"0x" + data.hex().encode(), data.hex(" ").encode()):
        assert _read(tmp_path, written_data) == data


@pytest.mark.parametrize(
    ("data", "piece", "offset"), [(b"0x00zz", 1 << 20, 2), (b"0x000", 1 << 20, None), (b"0x0000ab00zz", 8, 8)]
)
def test_malformed_hex_text(
    data: bytes, piece: int, offset: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PIECE", piece)
    with pytest.raises(NotHex) as failure:
        _read(tmp_path, data)
    assert offset in (None, failure.value.offset)


def test_too_large(tmp_path: Path) -> None:
    for item in (b"\0", b"00"):
        assert len(_read(tmp_path, item * 1000)) == 1000
        with pytest.raises(TooLarge):
            _read(tmp_path, item * 1001)


def test_a_pipe_without_a_writer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with monkeypatch.context() as patched, pytest.raises(SetupError, match=r"pipe: .* nothing came for 0"):
        patched.setattr(given_files, "PIPE_SECONDS", 0.05)
        read_content(str(path), 10)
    writer = threading.Timer(0.01, path.write_bytes, (b"0x0102",))
    writer.start()
    assert read_content(str(path), 10) == b"\1\2"
    writer.join()


@pytest.mark.parametrize(
    ("name", "error"),
    [("nowhere", "cannot read .*nowhere: No such file"), ("", "Is a directory"), ("a\0b", "cannot read '.*/a.x00b'")],
)
def test_a_file_that_cannot_be_read(name: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=error):
        read_content(f"{tmp_path}/{name}", 10)
