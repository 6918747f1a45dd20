"""The file of log lines: its parts, who may have it, and what happens when it cannot be written [LOG22]."""

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.log_file import LogFile
from rollup_node.stages.io.log import logger
from rollup_node.stages.io.log.logger import Record


@pytest.fixture
def records() -> Iterator[list[Record]]:
    """Yield what is logged meanwhile."""
    before, result = logger.configuration(), list[Record]()
    logger.configure("test", logger.Level.INFO, result.append)
    yield result
    logger.configure(*before)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_new_part_begins_before_the_file_is_too_long(tmp_path: Path) -> None:
    file = LogFile(str(tmp_path / "node.log"), 10, 3)
    for number in range(8):
        file.write(b"%d234\n" % number)
    file.close()
    assert contents(tmp_path) == {
        "node.log": b"6234\n7234\n",
        "node.log.1": b"4234\n5234\n",
        "node.log.2": b"2234\n3234\n",
    }
    assert (tmp_path / "node.log").stat().st_mode & 0o777 == 0o640 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@given(lines=st.lists(st.integers(1, 30), max_size=60), parts=st.integers(1, 4), limit=st.integers(1, 40))
def test_no_line_is_cut_and_the_newest_are_kept(
    lines: list[int], parts: int, limit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("log")
    written = [b"%d" % (index % 10) * size + b"\n" for index, size in enumerate(lines)]
    file = LogFile(str(folder / "log"), limit, parts)
    for line in written:
        file.write(line)
    file.close()
    names = ["log", *(f"log.{part}" for part in range(1, parts))]
    assert set(contents(folder)) <= set(names)
    kept = b"".join((folder / name).read_bytes() for name in reversed(names) if (folder / name).exists())
    assert b"".join(written).endswith(kept)
    for content in contents(folder).values():
        assert len(content) <= limit or content.count(b"\n") == 1


def test_a_file_that_exists_is_continued_and_a_moved_one_left(tmp_path: Path) -> None:
    path = tmp_path / "node.log"
    path.write_bytes(b"before\n")
    file = LogFile(str(path), 1000, 3)
    file.write(b"one\n")
    path.rename(tmp_path / "moved.log")
    file.write(b"two\n")
    file.reopen()
    file.write(b"three\n")
    file.close()
    assert contents(tmp_path) == {"moved.log": b"before\none\ntwo\n", "node.log": b"three\n"}


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda path: path.mkdir(), "Is a directory: give a path that this node may write"),
        (lambda path: path.symlink_to("/dev/null"), "is a symbolic link, give the file itself"),
        (os.mkfifo, "No such device or address"),
        (lambda path: (path.touch(), path.chmod(0o666)), "others may write to it"),
    ],
)
def test_what_cannot_be_the_file_ends_the_start(tmp_path: Path, prepare: object, reason: str) -> None:
    prepare(tmp_path / "node.log")  # type: ignore[operator]
    with pytest.raises(SetupError, match=r"log file .*node\.log cannot be used: ") as caught:
        LogFile(str(tmp_path / "node.log"), 1000, 3)
    assert reason in str(caught.value)


def test_a_missing_folder_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"its folder .* does not exist"):
        LogFile(str(tmp_path / "none" / "node.log"), 1000, 3)


def test_two_nodes_do_not_share_a_file(tmp_path: Path) -> None:
    first = LogFile(str(tmp_path / "node.log"), 1000, 3)
    with pytest.raises(SetupError, match="is that of another node"):
        LogFile(str(tmp_path / "node.log"), 1000, 3)
    first.close()
    LogFile(str(tmp_path / "node.log"), 1000, 3).close()


def test_a_failed_write_is_logged_once_and_tried_again(tmp_path: Path, records: list[Record]) -> None:
    """A limit of the file's size fails as a full disk does."""
    file = LogFile(str(tmp_path / "node.log"), 1 << 20, 3)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
        file.write(b"lost\n")
        file.write(b"lost\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    file.write(b"kept\n")
    assert (tmp_path / "node.log").read_bytes() == b"kept\n"
    (record,) = records
    assert record.message == "cannot write the log file" and record.fields["error"] == "File too large"


def test_a_part_that_cannot_begin_is_an_error_and_the_file_goes_on(tmp_path: Path, records: list[Record]) -> None:
    (tmp_path / "node.log.1").mkdir()
    file = LogFile(str(tmp_path / "node.log"), 10, 3)
    (tmp_path / "node.log.2").mkdir()
    (tmp_path / "node.log.2" / "full").touch()
    for _ in range(5):
        file.write(b"12345678\n")
    file.close()
    assert [record.message for record in records] == ["cannot write the log file"]
    assert (tmp_path / "node.log").read_bytes().endswith(b"12345678\n")
