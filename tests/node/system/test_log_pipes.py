"""Log lines through pipes, where no write blocks."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollup_node.node.system.log_pipes import LineReader, LineStream, LineWriter, Output


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


def test_output_to_a_reader_that_is_gone_is_no_error(pipe: tuple[int, int]) -> None:
    output = Output(pipe[1], note)
    os.close(pipe[0])
    output.write(b"line\n")
    assert output.flush()
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


def test_output_to_a_closed_descriptor_is_no_error(pipe: tuple[int, int]) -> None:
    os.close(pipe[1])
    output = Output(pipe[1], note)
    output.write(b"line\n")
    assert output.flush()
