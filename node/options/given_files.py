"""Files that the user names: regular ones, and pipes, as the `<(command)` of a shell is one."""

import errno
import io
import os
import select
import stat
import time
from pathlib import Path
from typing import BinaryIO

from rollup_node.node.options.errors import OptionError

PIPE_SECONDS = 20.0
"""How long the content of a pipe or a device may take. Without a writer it never comes."""
_PIECE = 1 << 16


def read_given_file(path: str, longest: int) -> bytes:
    """Return the first `longest` bytes. Raises OSError, also for a pipe without end, and ValueError for no path."""
    # Without O_NONBLOCK opening a named pipe waits for its other end.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return file.read(longest)
        return _read_pipe(descriptor, longest)


def open_regular(path: str | Path) -> BinaryIO:
    """Open a file to read.

    Raises OSError also for what is no regular file: a pipe would be waited for, a device has no end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    file = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no file")
    return file


def open_to_read(path: str) -> BinaryIO:
    """Open a file as `open` does; a pipe or device of which nothing comes within PIPE_SECONDS raises TimeoutError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    file = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(1000 * PIPE_SECONDS):
            file.close()
            raise TimeoutError(errno.ETIMEDOUT, f"nothing came within {PIPE_SECONDS:g} s")
    os.set_blocking(descriptor, True)
    return file


def _read_pipe(descriptor: int, longest: int) -> bytes:
    poll, content, deadline = select.poll(), bytearray(), time.monotonic() + PIPE_SECONDS
    poll.register(descriptor, select.POLLIN)
    while len(content) < longest:
        if not poll.poll(1000 * max(0.0, deadline - time.monotonic())):
            raise TimeoutError(errno.ETIMEDOUT, f"its end did not come within {PIPE_SECONDS:g} s")
        piece = os.read(descriptor, min(_PIECE, longest - len(content)))
        if not piece:
            break
        content += piece
    return bytes(content)


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
