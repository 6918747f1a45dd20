"""Structured log lines: a message, named fields, and where they come from. How a line looks and where it goes is
decided once per process by `configure`; until then errors and warnings go to stderr, so that tests and small programs
need no set-up."""

import sys
import time
import traceback
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import NamedTuple


class Level(IntEnum):
    """Verbosity; a level lets its own lines and those of lower numbers through (options 2.4)."""

    SILENT = 0
    ERROR = 1
    WARN = 2
    INFO = 3
    DEBUG = 4
    DETAIL = 5


class Record(NamedTuple):
    """One line before formatting. `time` is in Unix seconds; `process` is the process's name, `part` the logger's;
    `trace` is a traceback of one or more lines that stays with the line."""

    time: float
    level: Level
    process: str
    part: str
    message: str
    fields: Mapping[str, object]
    trace: str | None


Sink = Callable[[Record], None]


def plain(record: Record) -> None:
    """The sink of an unconfigured process: one short line on stderr."""
    fields = "".join(f" {key}={value}" for key, value in record.fields.items())
    trace = f"\n{record.trace.rstrip()}" if record.trace else ""
    sys.stderr.write(f"{record.level.name.lower()} {record.part}: {record.message}{fields}{trace}\n")


class _Settings:
    """What `configure` sets; one per process."""

    process = ""
    level = Level.WARN
    sink: Sink = staticmethod(plain)


def configure(process: str, level: Level, sink: Sink) -> None:
    """Names the process, and says which lines pass and who writes them; acts on loggers already made as well."""
    _Settings.process, _Settings.level = process, level
    _Settings.sink = staticmethod(sink)


def configuration() -> tuple[str, Level, Sink]:
    """What `configure` was told last, or the state at first."""
    return _Settings.process, _Settings.level, _Settings.sink


class Logger:
    """Writes lines of one part of a process; fields are given as keywords."""

    __slots__ = ("part",)

    def __init__(self, part: str) -> None:
        self.part = part

    def enabled(self, level: Level) -> bool:
        """Whether such a line would be written; for lines whose fields cost something."""
        return level <= _Settings.level

    def detail(self, message: str, /, **fields: object) -> None:
        """Low-level operation; large volume."""
        self.write(Level.DETAIL, message, fields)

    def debug(self, message: str, /, **fields: object) -> None:
        """Debugging information."""
        self.write(Level.DEBUG, message, fields)

    def info(self, message: str, /, **fields: object) -> None:
        """Normal activity."""
        self.write(Level.INFO, message, fields)

    def warn(self, message: str, /, **fields: object) -> None:
        """Something is wrong that may heal by itself."""
        self.write(Level.WARN, message, fields)

    def error(self, message: str, /, **fields: object) -> None:
        """Something is wrong that needs a person."""
        self.write(Level.ERROR, message, fields)

    def crash(self, message: str, error: BaseException, /, **fields: object) -> None:
        """An error line with the whole traceback of a bug, kept together."""
        self.write(Level.ERROR, message, fields, "".join(traceback.format_exception(error)))

    def write(self, level: Level, message: str, fields: Mapping[str, object], trace: str | None = None) -> None:
        """Writes one line if its level passes."""
        if level <= _Settings.level:
            _Settings.sink(Record(time.time(), level, _Settings.process, self.part, message, fields, trace))


def get_logger(part: str) -> Logger:
    """The logger of a part, usually a stage's name."""
    return Logger(part)
