"""Log lines on their way out, where nobody may ever block: a process writes into a pipe of its own, the supervisor
reads all pipes and writes whole lines to its output. Who cannot write drops lines, counts them, and says so.

A record of several lines (a traceback) travels as one line, its inner newlines replaced by `JOINT`.
"""

import contextlib
import io
import os
import select
import stat
import time
from collections.abc import Callable

JOINT = b"\x1e"
READ_SIZE = 65536
LINE_LIMIT = 1 << 20
OUTPUT_LIMIT = 4 << 20
PIPE_ATOMIC = 4096


class LineWriter:
    """Writes whole records to a pipe that has no other writer. `note(n)` makes the line that says n were dropped."""

    def __init__(self, fd: int, note: Callable[[int], bytes]) -> None:
        os.set_blocking(fd, False)
        self.fd, self.note = fd, note
        self.rest = b""
        self.dropped_total = 0
        self._dropped = 0

    def write(self, record: bytes) -> None:
        """Writes a record that ends in a newline, or drops it."""
        line = record[:-1].replace(b"\n", JOINT) + b"\n"
        if not self.flush():
            self._drop()
            return
        if self._dropped:
            line = self.note(self._dropped) + line
        written = self._try(line)
        if written == 0:
            self._drop()
        else:
            self.rest, self._dropped = line[written:], 0

    def flush(self) -> bool:
        """Tries to write the rest of a half-written record; whether none is left."""
        if self.rest:
            self.rest = self.rest[self._try(self.rest) :]
        return not self.rest

    def drain(self, seconds: float) -> None:
        """Before the end: waits a little for the reader to take the rest."""
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
    """Stands in for `sys.stdout` and `sys.stderr`: what is printed goes out by lines, and cannot block or fail."""

    def __init__(self, writer: LineWriter, fd: int) -> None:
        self.writer, self.fd, self.part = writer, fd, ""

    def write(self, text: str) -> int:
        """Keeps the last line until its newline comes."""
        whole, newline, self.part = (self.part + text).rpartition("\n")
        if newline:
            self.writer.write(whole.encode("utf-8", "backslashreplace") + b"\n")
        if len(self.part) > LINE_LIMIT:
            self.part = ""
        return len(text)

    def flush(self) -> None:
        """Nothing is kept but an unfinished line."""

    def fileno(self) -> int:
        """The descriptor for those who write past Python (faulthandler)."""
        return self.fd

    def writable(self) -> bool:
        """Always."""
        return True


class LineReader:
    """The supervisor's end of one process's pipe."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd, self.tail, self.closed = fd, b"", False

    def read(self, rounds: int = 16) -> tuple[bytes, bool]:
        """The whole lines that have come, and whether the pipe has ended."""
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
        if len(self.tail) > LINE_LIMIT:
            lines, newline, self.tail = lines + newline + self.tail, b" <cut>\n", b""
        return (lines + newline).replace(JOINT, b"\n"), ended

    def close(self) -> None:
        """Closes the pipe."""
        os.close(self.fd)
        self.closed = True

    def finish(self) -> bytes:
        """Everything left after the process's death; a half-written line is marked."""
        lines, _ = self.read(rounds=OUTPUT_LIMIT // READ_SIZE)
        if self.tail:
            lines += self.tail.replace(JOINT, b"\n") + b" <cut>\n"
            self.tail = b""
        return lines


class Output:
    """Writes whole lines to an inherited descriptor without ever waiting for its reader. Up to `limit` bytes are
    kept; beyond that chunks of lines are dropped and counted. A reader that has gone away is no error."""

    def __init__(self, fd: int, note: Callable[[int], bytes], limit: int = OUTPUT_LIMIT) -> None:
        self.note, self.limit = note, limit
        self.dropped_total = 0
        self._dropped = 0
        self._rest = memoryview(b"")
        self._waiting: list[bytes] = []
        self._size = 0
        self._gone = False
        self._careful = False
        self.fd = self._reopened(fd)

    def _reopened(self, fd: int) -> int:
        """O_NONBLOCK belongs to the open file that the shell shares, so pipes and terminals are opened anew."""
        try:
            mode = os.fstat(fd).st_mode
        except OSError:
            self._gone = True
            return fd
        if stat.S_ISREG(mode):
            return fd
        with contextlib.suppress(OSError):
            return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        self._careful = True
        return fd

    def write(self, lines: bytes) -> None:
        """Takes lines that end in a newline."""
        if self._gone or not lines:
            return
        if self._size + len(lines) > self.limit:
            self._dropped += lines.count(b"\n")
            self.dropped_total += lines.count(b"\n")
            return
        self._waiting.append(lines)
        self._size += len(lines)

    def flush(self) -> bool:
        """Writes what can be written now; whether nothing is left."""
        while self._rest or self._waiting:
            if not self._rest:
                self._rest, self._waiting = memoryview(b"".join(self._waiting)), []
            written = self._try(self._rest)
            if written == 0:
                break
            self._rest = self._rest[written:]
            self._size -= written
            if self._dropped and self._size == 0:
                line, self._dropped = self.note(self._dropped), 0
                self.write(line)
        return not self._size

    def _try(self, data: memoryview) -> int:
        if self._careful:
            if not select.select([], [self.fd], [], 0)[1]:
                return 0
            data = data[:PIPE_ATOMIC]
        try:
            return os.write(self.fd, data)
        except BlockingIOError:
            return 0
        except OSError:
            self._gone, self._rest, self._waiting, self._size = True, memoryview(b""), [], 0
            return 0
