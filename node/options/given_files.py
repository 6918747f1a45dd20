"""Files that the user names: regular ones, and pipes, as the `<(command)` of a shell is one."""

import errno
import io
import os
import select
import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rollup_node.node.options.errors import OptionError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer

PIPE_SECONDS = 20.0
"""How long a pipe or a device may give nothing. Without a writer it never does."""


class _Pipe(io.RawIOBase):
    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._poll = descriptor, select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "Buffer") -> int:
        if not self._poll.poll(1000 * PIPE_SECONDS):
            raise TimeoutError(errno.ETIMEDOUT, f"it is a pipe or a device, and nothing came for {PIPE_SECONDS:g} s")
        return os.readv(self._descriptor, [buffer])

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()


def _open(path: str | Path) -> tuple[int, int]:
    # Without O_NONBLOCK opening a named pipe waits for its other end.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    return descriptor, os.fstat(descriptor).st_mode


def opened_given_file(path: str) -> BinaryIO:
    """Return a file to read, which raises OSError where it is a pipe that gives nothing for PIPE_SECONDS.

    Raises OSError, and ValueError for what is no path."""
    descriptor, mode = _open(path)
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return os.fdopen(descriptor, "rb")
    return io.BufferedReader(_Pipe(descriptor))


def regular_file(path: Path) -> BinaryIO:
    """Return a file to read that is one: a pipe would be waited for, a device has no end. Raises OSError."""
    descriptor, mode = _open(path)
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        raise OSError(errno.EINVAL, "it is no file")
    return os.fdopen(descriptor, "rb")


def read_given_file(path: str, longest: int = -1) -> bytes:
    """Return the first `longest` bytes of a file, or all. Raises as opened_given_file and what that returns."""
    with opened_given_file(path) as file:
        return file.read(longest)


def open_given_file(path: str, longest: int) -> io.TextIOWrapper:
    """Return the first `longest` bytes of a file as UTF-8 text, and its name. Raises as read_given_file."""
    content = io.BytesIO(read_given_file(path, longest))
    content.name = path
    return io.TextIOWrapper(content, encoding="utf-8")


MAX_FILE = 4 << 20
"""Bytes."""


def read_chain_file(path: str, error_prefix: str) -> bytes:
    """Return the content of a file. Raises OptionError for one that is unreadable or longer than MAX_FILE."""
    if not path:
        raise OptionError(f"{error_prefix}: its path is empty")
    try:
        data = read_given_file(path, MAX_FILE + 1)
    except (OSError, ValueError) as error:
        raise OptionError(f"{error_prefix}: {path}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_FILE:
        raise OptionError(f"{error_prefix}: {path}: longer than {MAX_FILE} bytes")
    return data
