"""Log lines through pipes, where no write blocks."""

import os
import resource
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.log_pipes import LineReader, LineStream, LineWriter, LogFile, Output
from rollup_node.stages.io.log import logger
from rollup_node.stages.io.log.logger import Record


def note(lines: int) -> bytes:
    return b"%d dropped\n" % lines


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    for fd in (read, write):
        try:
            os.close(fd)
        except OSError:
            continue


def fill(writer: LineWriter, size: int = 1000) -> int:
    """Write until lines are dropped; how many were written in all."""
    count = 0
    while writer.dropped_total < 3:
        writer.write(b"%06d " % count + b"x" * size + b"\n")
        count += 1
    return count


def read_all(reader: LineReader, writer: LineWriter) -> list[bytes]:
    lines = []
    while True:
        done = writer.flush()
        text, _ = reader.read()
        lines += text.splitlines()
        if done and not text:
            return lines


@pytest.mark.parametrize("size", [10, 1000, 20_000, 100_000])
def test_a_stalled_reader_costs_lines_but_blocks_nothing(pipe: tuple[int, int], size: int) -> None:
    reader, writer = LineReader(pipe[0]), LineWriter(pipe[1], note)
    count = fill(writer, size)
    lines = read_all(reader, writer)
    assert [int(line[:6]) for line in lines] == list(range(count - 3))
    assert all(len(line) == size + 7 for line in lines)
    writer.write(b"again\n")
    assert read_all(reader, writer) == [b"3 dropped", b"again"]
    writer.write(b"and on\n")
    assert read_all(reader, writer) == [b"and on"]


def test_records_of_several_lines_stay_together(pipe: tuple[int, int]) -> None:
    writer = LineWriter(pipe[1], note)
    writer.write(b"a bug\n  line 1\n  line 2\n")
    assert os.read(pipe[0], 100) == b"a bug\x1e  line 1\x1e  line 2\n"
    writer.write(b"a bug\n  line 1\n")
    assert LineReader(pipe[0]).read() == (b"a bug\n  line 1\n", False)


def test_an_incomplete_line_is_kept_and_finally_marked(pipe: tuple[int, int]) -> None:
    reader = LineReader(pipe[0])
    os.write(pipe[1], b"one\ntw")
    assert reader.read() == (b"one\n", False)
    os.write(pipe[1], b"o\nthr")
    assert reader.read() == (b"two\n", False)
    os.close(pipe[1])
    assert reader.read() == (b"", True)
    assert reader.finish() == b"thr <cut>\n"
    assert reader.finish() == b""


def test_a_line_without_end_is_cut(pipe: tuple[int, int]) -> None:
    reader = LineReader(pipe[0])
    os.set_blocking(pipe[1], False)
    total = 0
    text = b""
    while not text:
        total += os.write(pipe[1], b"x" * 65536)
        text, _ = reader.read()
    assert text.endswith(b"x <cut>\n")
    assert len(text) == total + len(b" <cut>\n") > 1 << 20


def test_prints_go_out_by_lines(pipe: tuple[int, int]) -> None:
    stream = LineStream(LineWriter(pipe[1], note), pipe[1])
    print("half", end="", file=stream)
    print(" and half\nnext", file=stream)
    print("unfinished", end="", file=stream)
    assert os.read(pipe[0], 100) == b"half and half\nnext\n"
    assert stream.fileno() == pipe[1]


def test_output_keeps_what_fits_and_counts_the_rest(pipe: tuple[int, int]) -> None:
    output = Output(pipe[1], note, limit=200_000)
    assert os.get_blocking(pipe[1])
    sent = 0
    while output.dropped_total == 0:
        output.write(b"%08d\n" % sent * 100)
        output.flush()
        sent += 1
    received = b""
    while not output.flush() or not received.endswith(b"dropped\n"):
        received += os.read(pipe[0], 65536)
    assert received.count(b"\n") == (sent - 1) * 100 + 1
    assert received.endswith(b"100 dropped\n")


@pytest.mark.parametrize("end", [0, 1], ids=["reader", "descriptor"])
def test_output_to_a_reader_that_is_gone_is_no_error(pipe: tuple[int, int], end: int) -> None:
    """Nor to a descriptor that is closed."""
    output = Output(pipe[1], note)
    os.close(pipe[end])
    for _ in range(2):
        output.write(b"line\n")
        assert output.flush()


def test_output_to_a_file_keeps_its_place(tmp_path: Path) -> None:
    with open(tmp_path / "log", "wb") as file:
        file.write(b"before\n")
        file.flush()
        output = Output(file.fileno(), note)
        output.write(b"line\n")
        assert output.flush()
        file.write(b"after\n")
    assert (tmp_path / "log").read_bytes() == b"before\nline\nafter\n"


def test_output_to_a_full_socket_does_not_block() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        output = Output(ours.fileno(), note)
        output.write(b"x" * 1_000_000 + b"\n")
        assert not output.flush()
        received = 0
        while not output.flush() or received < 1_000_001:
            received += len(theirs.recv(65536))
        assert received == 1_000_001


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
        (lambda path: path.parent.rmdir(), "does not exist"),
    ],
)
def test_what_cannot_be_the_file_ends_the_start(tmp_path: Path, prepare: object, reason: str) -> None:
    prepare(tmp_path / "node.log")  # type: ignore[operator]
    with pytest.raises(SetupError, match=r"log file .*node\.log cannot be used: ") as caught:
        LogFile(str(tmp_path / "node.log"), 1000, 3)
    assert reason in str(caught.value)


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
