"""Files that describe a chain."""

from pathlib import Path

import pytest

from rollup_node.node.options.errors import OptionError
from rollup_node.node.setup.chain_files import MAX_FILE, read_chain_file


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
