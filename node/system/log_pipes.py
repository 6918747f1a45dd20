"""Log lines on their way out, where no write may block.

A process writes into a pipe of its own, the supervisor reads all pipes and writes whole lines to its output. A
writer that cannot write drops lines, counts them, and logs the count. A record of several lines (a traceback)
travels as one line, its inner newlines replaced by `NEWLINE_MARK`."""

import contextlib
import fcntl
import io
import os
import select
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.stages.io.files.private_files import open_private_file, why_unusable
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.codes import Code

NEWLINE_MARK = b"\x1e"
READ_SIZE = 65536
MAX_LINE_BYTES = 1 << 20
MAX_BUFFERED_BYTES = 4 << 20
PIPE_ATOMIC = 4096


MODE = 0o640
log = Logger("log")


class LogFile:
    """The file, and its older parts, named with `.1` and so on: `parts` files of up to `max_bytes` bytes.

    A file that cannot be written ends nothing: its lines are lost, and the next ones tried again. Raises SetupError
    where it cannot be opened at first, or is that of another node."""

    def __init__(self, path: str, max_bytes: int, parts: int) -> None:
        self.path, self._max_bytes, self._parts = Path(path).absolute(), max_bytes, parts
        self._fd, self._size, self._failed = -1, 0, False
        try:
            self._open()
        except BlockingIOError:
            raise SetupError(f"log file {self.path} is that of another node: give another one (--log.file)") from None
        except OSError as error:
            reason = why_unusable(self.path, error)
            raise SetupError(f"log file {self.path} cannot be used: {reason} (--log.file)") from None

    def write(self, lines: bytes) -> None:
        """Append whole lines; a new part begins before one that would be too long."""
        try:
            if self._fd < 0:
                self._open()
            if self._size and self._size + len(lines) > self._max_bytes:
                self._begin_part()
            self._size += os.write(self._fd, lines)
        except OSError as error:
            self._fail(error)
        else:
            self._failed = False

    def reopen(self) -> None:
        """Open the file by its name again, which another program has moved."""
        self.close()
        try:
            self._open()
        except OSError as error:
            self._fail(error)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _open(self) -> None:
        self._fd = open_private_file(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, MODE)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise
        self._size = os.fstat(self._fd).st_size

    def _begin_part(self) -> None:
        self.close()
        names = [self.path, *(self.path.with_name(f"{self.path.name}.{part}") for part in range(1, self._parts))]
        with suppress(FileNotFoundError):
            names[-1].unlink()
        for old, new in reversed(list(pairwise(names))):
            with suppress(FileNotFoundError):
                old.rename(new)
        self._open()

    def _fail(self, error: OSError) -> None:
        """Log the first failure in a row, which would fail again otherwise."""
        if not self._failed:
            self._failed = True
            log.error("cannot write the log file", code=Code.FILE.text, file=self.path, error=error.strerror)


def log_file(settings: LogSettings) -> LogFile | None:
    """Return the file of `log.file`, None without that option. Raises SetupError where it cannot be used."""
    if settings.file is None:
        return None
    return LogFile(settings.file, settings.file_mebibytes << 20, settings.file_parts)


class LineWriter:
    """Writes whole records to a pipe that has no other writer.

    `note(n)` formats the line that reports n dropped ones. A record larger than the pipe is written in parts; until
    its rest is written, other records are dropped."""

    def __init__(self, fd: int, note: Callable[[int], bytes]) -> None:
        os.set_blocking(fd, False)
        self.fd, self.note = fd, note
        self.unwritten = b""
        self.dropped_total = self._dropped = 0

    def write(self, record: bytes) -> None:
        """Write a record that ends in a newline, or drop it."""
        line = record[:-1].replace(b"\n", NEWLINE_MARK) + b"\n"
        if not self.flush():
            self._drop()
            return
        if self._dropped:
            line = self.note(self._dropped) + line
        written = self._try(line)
        if written == 0:
            self._drop()
        else:
            self.unwritten, self._dropped = line[written:], 0

    def flush(self) -> bool:
        """Try to write the rest of a partly written record; whether nothing is left."""
        if self.unwritten:
            self.unwritten = self.unwritten[self._try(self.unwritten) :]
        return not self.unwritten

    def drain(self, seconds: float) -> None:
        """Wait up to `seconds` for the reader to take the rest, before the process exits."""
        deadline = time.monotonic() + seconds
        while not self.flush() and time.monotonic() < deadline:
            time.sleep(0.005)

    def _try(self, data: bytes) -> int:
        try:
            return os.write(self.fd, data)
        except OSError:
            return 0

    def _drop(self) -> None:
        self._dropped += 1
        self.dropped_total += 1


class LineStream(io.TextIOBase):
    """Replaces `sys.stdout` and `sys.stderr`: printed text is written by lines, and never blocks or fails."""

    def __init__(self, writer: LineWriter, fd: int) -> None:
        self.writer, self.fd, self.partial = writer, fd, ""

    def write(self, text: str) -> int:
        """Write complete lines; keeps the last one until its newline arrives."""
        whole, newline, self.partial = (self.partial + text).rpartition("\n")
        if newline:
            self.writer.write(whole.encode("utf-8", "backslashreplace") + b"\n")
        if len(self.partial) > MAX_LINE_BYTES:
            self.partial = ""
        return len(text)

    def flush(self) -> None:
        """Do nothing: only an incomplete line is buffered."""

    def fileno(self) -> int:
        """Return the descriptor, for writers that bypass Python (faulthandler)."""
        return self.fd

    def writable(self) -> bool:
        """Return true."""
        return True


class LineReader:
    """The supervisor's end of the pipe of one process. `tail` is an incomplete line."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd, self.tail, self.closed = fd, b"", False

    def read(self, rounds: int = 16) -> tuple[bytes, bool]:
        """Return the complete lines that have arrived, and whether the pipe has ended."""
        parts = []
        ended = False
        for _ in range(rounds):
            try:
                data = os.read(self.fd, READ_SIZE)
            except BlockingIOError:
                break
            if not data:
                ended = True
                break
            parts.append(data)
        lines, newline, self.tail = (self.tail + b"".join(parts)).rpartition(b"\n")
        if len(self.tail) > MAX_LINE_BYTES:
            lines, newline, self.tail = lines + newline + self.tail, b" <cut>\n", b""
        return (lines + newline).replace(NEWLINE_MARK, b"\n"), ended

    def close(self) -> None:
        os.close(self.fd)
        self.closed = True

    def finish(self) -> bytes:
        """Everything left after the death of the process; an incomplete line is marked as cut."""
        lines, _ = self.read(rounds=MAX_BUFFERED_BYTES // READ_SIZE)
        if self.tail:
            lines += self.tail.replace(NEWLINE_MARK, b"\n") + b" <cut>\n"
            self.tail = b""
        return lines


class Output:
    """Writes whole lines to an inherited descriptor without ever waiting for its reader.

    Up to `limit` bytes are buffered; beyond that lines are dropped and counted. A reader that is gone is no error. All
    lines go to `file` as well."""

    def __init__(
        self, fd: int, note: Callable[[int], bytes], file: LogFile | None = None, limit: int = MAX_BUFFERED_BYTES
    ) -> None:
        self.note, self.limit, self._file = note, limit, file
        self.dropped_total = self._dropped = 0
        self._unwritten = memoryview(b"")
        self._buffered: list[bytes] = []
        self._size = 0
        self._gone = self._polled = False
        self.fd = self._reopened(fd)

    def _reopened(self, fd: int) -> int:
        """Return a descriptor of our own for pipes and terminals, or `fd`, which is then polled before each write."""
        # O_NONBLOCK is a flag of the open file, which we share with the shell: set it on a second open file.
        try:
            mode = os.fstat(fd).st_mode
        except OSError:
            self._gone = True
            return fd
        if stat.S_ISREG(mode):
            return fd
        with contextlib.suppress(OSError):
            return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        self._polled = True
        return fd

    def write(self, lines: bytes) -> None:
        """Buffers lines that end in a newline."""
        if self._file is not None and lines:
            self._file.write(lines)
        if self._gone or not lines:
            return
        if self._size + len(lines) > self.limit:
            self._dropped += lines.count(b"\n")
            self.dropped_total += lines.count(b"\n")
            return
        self._buffered.append(lines)
        self._size += len(lines)

    def flush(self) -> bool:
        """Write as much as possible now; whether nothing is left."""
        while self._unwritten or self._buffered:
            if not self._unwritten:
                self._unwritten, self._buffered = memoryview(b"".join(self._buffered)), []
            written = self._try(self._unwritten)
            if written == 0:
                break
            self._unwritten = self._unwritten[written:]
            self._size -= written
            if self._dropped and self._size == 0:
                line, self._dropped = self.note(self._dropped), 0
                self.write(line)
        return not self._size

    def _try(self, data: memoryview) -> int:
        if self._polled:
            if not select.select([], [self.fd], [], 0)[1]:
                return 0
            data = data[:PIPE_ATOMIC]
        try:
            return os.write(self.fd, data)
        except BlockingIOError:
            return 0
        except OSError:
            self._gone, self._unwritten, self._buffered, self._size = True, memoryview(b""), [], 0
            return 0
