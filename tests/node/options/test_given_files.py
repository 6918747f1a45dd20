"""Files that the user names."""

import os
import threading
from pathlib import Path

import pytest

from rollup_node.node.options import given_files
from rollup_node.node.options.errors import OptionError
from rollup_node.node.options.given_files import (
    MAX_FILE,
    open_given_file,
    read_chain_file,
    read_given_file,
    regular_file,
)


def test_a_file_and_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    assert (read_given_file(str(path), 9), read_given_file(str(path), 2)) == (b"abc", b"ab")
    with open_given_file(str(path), 9) as file:
        assert (file.name, file.read()) == (str(path), "abc")


def test_a_pipe_whose_writer_comes_later(tmp_path: Path) -> None:
    path, content = tmp_path / "pipe", b"x" * 300_000
    os.mkfifo(path)
    writer = threading.Timer(0.05, path.write_bytes, (content,))
    writer.start()
    assert read_given_file(str(path), 400_000) == content
    writer.join()


def test_a_pipe_without_a_writer_does_not_hang_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    monkeypatch.setattr(given_files, "PIPE_SECONDS", 0.05)
    with pytest.raises(TimeoutError, match=r"it is a pipe or a device, and nothing came for 0[.]05 s"):
        read_given_file(str(path), 9)


def test_a_pipe_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, error in ((tmp_path / "pipe", "it is no file"), (tmp_path, "Is a directory")):
        with pytest.raises(OSError, match=error):
            regular_file(path)


def test_a_device_and_a_folder(tmp_path: Path) -> None:
    assert read_given_file("/dev/zero", 9) == bytes(9)
    assert read_given_file("/dev/null", 9) == b""
    with pytest.raises(IsADirectoryError):
        read_given_file(str(tmp_path), 9)
    with pytest.raises(ValueError, match="null"):
        read_given_file("a\0b", 9)


def test_a_file_up_to_the_bound(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b" " * MAX_FILE)
    assert len(read_chain_file(str(path), "x")) == MAX_FILE
    path.write_bytes(b" " * (MAX_FILE + 1))
    with pytest.raises(OptionError, match=f"^x: {path}: longer than {MAX_FILE} bytes$"):
        read_chain_file(str(path), "x")


@pytest.mark.parametrize(("path", "text"), [("nowhere", "No such file"), (".", "a directory"), ("a\0b", "null")])
def test_what_cannot_be_read(path: str, text: str) -> None:
    with pytest.raises(OptionError, match=f"^failed to read it: {path}: .*{text}"):
        read_chain_file(path, "failed to read it")


def test_an_empty_path_is_no_directory() -> None:
    with pytest.raises(OptionError, match=r"^failed to read it: its path is empty$"):
        read_chain_file("", "failed to read it")
