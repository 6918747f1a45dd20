"""Structured log lines with named fields; errors and warnings go to standard error before `configure`."""

import sys
import time
import traceback
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import Fields, FieldValue, plain_text


class Level(IntEnum):
    """Verbosity: a level lets its own lines and those of lower numbers through [LOG2]."""

    SILENT = 0
    ERROR = 1
    WARN = 2
    INFO = 3
    DEBUG = 4
    TRACE = 5

    @property
    def label(self) -> str:
        """The name in log lines and in the option `log.level`, where TRACE is `detail`."""
        return "detail" if self is Level.TRACE else self.name.lower()


ALIASES = {
    "trace": Level.TRACE,
    "trce": Level.TRACE,
    "dbug": Level.DEBUG,
    "eror": Level.ERROR,
    "crit": Level.ERROR,
}
"""op-node's names of levels that have another name here [LOG3]."""


def parse_level(text: str) -> Level:
    """Return the level of a name, number or op-node name, in any case [LOG2, LOG3]. Raises ValueError."""
    name = text.strip().lower()
    if name in ALIASES:
        return ALIASES[name]
    for level in Level:
        if name in (level.label, str(int(level))):
            return level
    allowed = ", ".join(level.label for level in Level)
    raise ValueError(f"unknown log level {text!r}: use one of {allowed}, or 0 to {max(Level):d}")


class Record(NamedTuple):
    """One line before formatting; `time` in Unix seconds, `component` the logger's name, `traceback` of any length."""

    time: float
    level: Level
    process: str
    component: str
    message: str
    fields: Fields
    traceback: str | None


Sink = Callable[[Record], None]
ShareLevel = Callable[[Level], None]


def write_to_stderr(record: Record) -> None:
    """Write one short line to standard error: the sink of an unconfigured process."""
    fields = "".join(f" {key}={plain_text(value)}" for key, value in record.fields.items())
    lines = f"\n{record.traceback.rstrip()}" if record.traceback else ""
    sys.stderr.write(f"{record.level.label} {record.component}: {record.message}{fields}{lines}\n")


class Configuration(NamedTuple):
    """What is written of a process, and by which function; `share_level` passes a new level on to the whole node."""

    process: str
    level: Level
    sink: Sink
    share_level: ShareLevel | None = None


_configuration = Configuration("", Level.WARN, write_to_stderr)


def configure(process: str, level: Level, sink: Sink, share_level: ShareLevel | None = None) -> None:
    """Set the configuration of this process, for loggers that exist already as well."""
    global _configuration
    _configuration = Configuration(process, level, sink, share_level)


def set_level(level: Level) -> None:
    """Change the level of this process alone."""
    configure(*_configuration._replace(level=level))


def set_level_of_node(level: Level) -> None:
    """Change the level of all processes of the node: of this one now, of the others with their next heartbeat."""
    set_level(level)
    if _configuration.share_level is not None:
        _configuration.share_level(level)


def configuration() -> Configuration:
    return _configuration


class Logger:
    """Writes the lines of one component of a process, usually named after its stage; fields are given as keywords.

    All lines have the `chain` for which one of several is given."""

    __slots__ = ("chain", "component")

    def __init__(self, component: str, chain: str = "") -> None:
        self.component, self.chain = component, chain

    def trace(self, message: str, /, **fields: FieldValue) -> None:
        """Log a low-level operation, in large volume."""
        self.write(Level.TRACE, message, fields)

    def debug(self, message: str, /, **fields: FieldValue) -> None:
        """Log debugging information."""
        self.write(Level.DEBUG, message, fields)

    def info(self, message: str, /, **fields: FieldValue) -> None:
        """Log normal activity."""
        self.write(Level.INFO, message, fields)

    def warn(self, message: str, /, **fields: FieldValue) -> None:
        """Log a fault that may recover by itself."""
        self.write(Level.WARN, message, fields)

    def error(self, message: str, /, **fields: FieldValue) -> None:
        """Log a fault that needs an operator."""
        self.write(Level.ERROR, message, fields)

    def crash(self, message: str, error: BaseException, /, **fields: FieldValue) -> None:
        """Log a bug with its traceback."""
        coded = {"code": Code.BUG.text, "do": Code.BUG.remedy, **fields}
        self.write(Level.ERROR, message, coded, "".join(traceback.format_exception(error)))

    def write(self, level: Level, message: str, fields: Fields, trace: str | None = None) -> None:
        """Write one line, with a traceback if `trace` is given, unless its level is too verbose."""
        if level <= _configuration.level:
            process, sink = _configuration.process, _configuration.sink
            if self.chain:
                fields = {"chain": self.chain, **fields}
            sink(Record(time.time(), level, process, self.component, message, fields, trace))
