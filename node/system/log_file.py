"""The file of log lines, in parts of a bounded size: for hosts without a journal [LOG22]."""

import fcntl
import os
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.stages.io.files.private_files import open_private_file, why_unusable
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.messages.codes import Code

MODE = 0o640
log = get_logger("log")


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
