"""Standard input, output and error of the command: always open, and a failed write to standard output is an error."""

import errno
import io
import os
import sys
from typing import TextIO


class StdoutError(Exception):
    """Standard output cannot be written."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"cannot write to standard output: {cause.strerror}")
        self.reader_is_gone = cause.errno == errno.EPIPE


class _Stdout(io.FileIO):
    """Standard output, whose errors have a type of their own."""

    def write(self, data: "io.ReadableBuffer") -> int:  # type: ignore[name-defined]
        try:
            return super().write(data) or 0
        except OSError as error:
            raise StdoutError(error) from None


class _Stderr(io.FileIO):
    """Standard error: a failed write is ignored, for there is nowhere to report it."""

    def write(self, data: "io.ReadableBuffer") -> int:  # type: ignore[name-defined]
        try:
            return super().write(data) or 0
        except OSError:
            return len(data)


def open_standard_streams() -> None:
    """Open those of descriptors 0 to 2 that are closed, so that no other file gets their numbers.

    Input is empty then, output fails and errors are discarded. From here on `print` raises StdoutError when it
    cannot write."""
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        if not _is_open(descriptor):
            opened = os.open(os.devnull, mode)
            assert opened == descriptor, "the lowest free number is taken"
            os.set_inheritable(descriptor, True)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(_Stdout(1, "w", closefd=False), sys.stdout, line_buffering=os.isatty(1))
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(_Stderr(2, "w", closefd=False), sys.stderr, line_buffering=True)


def discard_stdout() -> None:
    """Discard what is still buffered for standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _text(raw: io.FileIO, replaced: TextIO | None, line_buffering: bool) -> TextIO:
    encoding = "utf-8" if replaced is None else replaced.encoding
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=line_buffering)
