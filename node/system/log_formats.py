"""How log lines look: the five formats [LOG4 to LOG6]."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from rollup_node.stages.io.log.logger import Level, Record
from rollup_node.stages.messages.log_fields import FieldValue, json_fields, plain_text

FORMATS = ("text", "terminal", "logfmt", "json", "json-pretty")

_RESERVED = frozenset({"t", "lvl", "process", "component", "pid", "msg", "trace"})
_COLORS = {Level.ERROR: 31, Level.WARN: 33, Level.INFO: 32, Level.DEBUG: 36, Level.TRACE: 34}
_MESSAGE_WIDTH = 40
_PROCESS_WIDTH = 10

Formatter = Callable[[Record], bytes]


class LogSettings(msgspec.Struct, frozen=True):
    """The options `log.*`; `file_mebibytes` bounds each of `file_parts` parts of the file, None for no file."""

    level: Level = Level.INFO
    format: str = "text"
    color: bool = False
    pid: bool = False
    file: str | None = None
    file_mebibytes: int = 100
    file_parts: int = 10


def formatter(settings: LogSettings) -> Formatter:
    """Return the function that turns a record into the bytes of its line, newline included."""
    if settings.format.startswith("json"):
        indent = 2 if settings.format == "json-pretty" else None
        return lambda record: _json(record, settings, indent)
    if settings.format == "terminal" or (settings.format == "text" and settings.color):
        return lambda record: _terminal(record, settings)
    return lambda record: _logfmt(record, settings)


def _json(record: Record, settings: LogSettings, indent: int | None) -> bytes:
    line: dict[str, object] = {"t": _time(record), "lvl": record.level.label, "msg": record.message}
    if "code" in record.fields:
        line["code"] = record.fields["code"]
    line["process"] = record.process
    if record.component != record.process.partition(".")[0]:
        line["component"] = record.component
    if settings.pid:
        line["pid"] = os.getpid()
    line.update((_key(key), value) for key, value in json_fields(record.fields))
    if record.traceback:
        line["trace"] = record.traceback
    return json.dumps(line, indent=indent).encode() + b"\n"


def _logfmt(record: Record, settings: LogSettings) -> bytes:
    words = [f"t={_time(record)} lvl={record.level.label} process={_quoted(record.process)}"]
    if record.component != record.process.partition(".")[0]:
        words.append(f"component={_quoted(record.component)}")
    if settings.pid:
        words.append(f"pid={os.getpid()}")
    words.append(f"msg={_quoted(record.message)}")
    words += [f"{_key(key)}={_text(value)}" for key, value in _fields(record)]
    return _encoded(" ".join(words), record)


def _terminal(record: Record, settings: LogSettings) -> bytes:
    paint = _COLORS.get(record.level, 0) if settings.color else 0
    level = f"{record.level.label.upper():<6}"
    moment = datetime.fromtimestamp(record.time).strftime("%m-%d|%H:%M:%S.%f")[:-3]
    message = record.message if record.message.isprintable() else _quoted(record.message)
    fields = [f"pid={os.getpid()}"] if settings.pid else []
    fields += [
        f"\x1b[{paint}m{_key(key)}\x1b[0m={_text(value)}" if paint else f"{_key(key)}={_text(value)}"
        for key, value in _fields(record)
    ]
    shown = f"\x1b[{paint}m{level}\x1b[0m" if paint else level
    head = f"{shown}[{moment}] {record.process:<{_PROCESS_WIDTH}} "
    return _encoded(head + (f"{message:<{_MESSAGE_WIDTH}} {' '.join(fields)}" if fields else message), record)


def _encoded(line: str, record: Record) -> bytes:
    if record.traceback:
        rows = record.traceback.expandtabs().rstrip().split("\n")
        line = "\n".join([line, *(row if row.isprintable() else ascii(row)[1:-1] for row in rows)])
    return line.encode("utf-8", "backslashreplace") + b"\n"


def _time(record: Record) -> str:
    return datetime.fromtimestamp(record.time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _key(key: str) -> str:
    return f"{key}_" if key in _RESERVED else key


def _fields(record: Record) -> list[tuple[str, FieldValue]]:
    """Return the fields in the order of the line: the code first."""
    return sorted(record.fields.items(), key=lambda field: field[0] != "code")


def _text(value: FieldValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.0f}"
    return _quoted(plain_text(value))


def _quoted(text: str) -> str:
    if text and text.isprintable() and not any(letter in text for letter in ' "=\\'):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
