"""Standard input, output and error of the command: always open, and no text to standard output is lost unnoticed."""

import errno
import io
import os
import sys
from typing import TextIO


class OutputError(Exception):
    """Standard output takes no more."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"cannot write to standard output: {cause.strerror}")
        self.reader_is_gone = cause.errno == errno.EPIPE


class _Output(io.FileIO):
    """Standard output, whose failures can be told from those of all other files."""

    def write(self, data: "io.ReadableBuffer") -> int:  # type: ignore[name-defined]
        try:
            return super().write(data) or 0
        except OSError as error:
            raise OutputError(error) from None


class _Errors(io.FileIO):
    """Standard error: a failure to write there cannot be told to anybody."""

    def write(self, data: "io.ReadableBuffer") -> int:  # type: ignore[name-defined]
        try:
            return super().write(data) or 0
        except OSError:
            return len(data)


def open_standard_streams() -> None:
    """Opens what we were started without, so that no other file gets its number: input is empty, output refuses, errors
    go nowhere. From then on `print` raises OutputError where standard output cannot be written."""
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        if not _is_open(descriptor):
            opened = os.open(os.devnull, mode)
            assert opened == descriptor, "the lowest free number is taken"
            os.set_inheritable(descriptor, True)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout, line_buffering=os.isatty(1))
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(_Errors(2, "w", closefd=False), sys.stderr, line_buffering=True)


def give_up_output() -> None:
    """Lets what is still to be written to standard output go nowhere."""
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
