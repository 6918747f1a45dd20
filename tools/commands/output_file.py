"""The files of a command: those that it reads, and where its results go, under their name only when complete."""

import argparse
import contextlib
import os
import re
import stat
import sys
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from rollup_node.node.options.errors import shown
from rollup_node.node.options.given_files import opened_given_file
from rollup_node.node.system.exit_codes import PROGRAM, SetupError
from rollup_node.tools.inspect.row_formats import RowFormat

FORMATS = {".jsonl": RowFormat.JSON, ".csv": RowFormat.CSV}


class OutputFile:
    """A file under a temporary name in the folder of `path`, until it is complete.

    An existing file of that name is replaced with `overwrite`."""

    def __init__(self, path: Path, overwrite: bool) -> None:
        self._path, self._overwrite = path, overwrite
        self._partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        if self._exists() and not overwrite:
            raise SetupError(f"--out: {shown(str(path))} exists: give another name, or --overwrite to replace it")
        try:
            self.descriptor = os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise SetupError(f"--out: cannot write {shown(str(self._partial))}: {error.strerror}") from None

    def _exists(self) -> bool:
        try:
            mode = os.lstat(self._path).st_mode
        except OSError:
            return False
        if stat.S_ISDIR(mode):
            raise SetupError(f"--out: {shown(str(self._path))} is a directory")
        return True

    def complete(self) -> str:
        """Give the file its name; the line that says so.

        Raises SetupError if that fails, or if a file of that name has appeared meanwhile."""
        name, size = shown(str(self._path)), os.fstat(self.descriptor).st_size
        try:
            os.fsync(self.descriptor)
            os.close(self.descriptor)
            replaces = self._exists()
            if replaces and not self._overwrite:
                raise SetupError(f"--out: {name} has appeared meanwhile; the results are in {self._partial.name}")
            os.replace(self._partial, self._path)
        except OSError as error:
            text = f"--out: cannot complete {name}: {error.strerror}; the results are in {self._partial.name}"
            raise SetupError(text) from None
        return f"{size} bytes written to {name}{', replacing an older file' if replaces else ''}"

    def abandon(self) -> str:
        """Keep the results of a run that failed under the temporary name, if there are any; the line that says so."""
        size = os.fstat(self.descriptor).st_size
        os.close(self.descriptor)
        if size:
            return f"the results up to here are in {shown(str(self._partial))}"
        with contextlib.suppress(OSError):
            self._partial.unlink()
        return ""


class CommandOutput:
    """The form of the results, and their file if it is not standard output.

    As a context it abandons the file of a command that was left by an exception."""

    def __init__(self, form: RowFormat, file: OutputFile | None) -> None:
        self.form, self.file = form, file
        self._ended = file is None

    def __enter__(self) -> "CommandOutput":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended:
            self.end(1)

    def end(self, code: int) -> int:
        """Complete the file of a command that ended with exit code 0, abandon it for another; return the code."""
        if self._ended:
            return code
        self._ended = True
        assert self.file is not None
        text = self.file.complete() if code == 0 else self.file.abandon()
        if text:
            print(f"{PROGRAM}: {text}", file=sys.stderr)
        return code


def open_output(flags: argparse.Namespace) -> CommandOutput:
    """Return the output that the flags choose: on a terminal a table, else lines of text.

    Raises SetupError for flags that contradict each other, and for a file that cannot be written."""
    if flags.out is None:
        if flags.overwrite:
            raise SetupError("--overwrite has no meaning without --out")
        if flags.json:
            return CommandOutput(RowFormat.JSON, None)
        return CommandOutput(RowFormat.TABLE if os.isatty(1) else RowFormat.TEXT, None)
    path = Path(flags.out)
    form = FORMATS.get(path.suffix.lower())
    if form is None or "\0" in flags.out:
        raise SetupError(f"--out {shown(flags.out)} does not end in {' or '.join(FORMATS)}")
    if flags.json and form is not RowFormat.JSON:
        raise SetupError(f"--json and --out {shown(flags.out)} contradict each other: name a file that ends in .jsonl")
    return CommandOutput(form, OutputFile(path, flags.overwrite))


_PIECE = 1 << 20
_TEXT = re.compile(rb"\s*(0[xX])?[0-9a-fA-F\s]*")
_SPACES = b" \t\r\n\v\f"


class TooLarge(Exception):
    """The content is longer than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"longer than {limit} bytes")
        self.limit = limit


class NotHex(Exception):
    """Hex text is malformed in the piece that begins at byte `offset` of the file."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


def read_content(path: str, limit: int) -> bytes:
    """Return the bytes of a file (`-` is standard input), or those of its hex text.

    Raises TooLarge for more than `limit` bytes, NotHex for malformed hex text, SetupError for an unreadable file."""
    try:
        with open("/dev/stdin", "rb") if path == "-" else opened_given_file(path) as file:
            return _content(file, limit)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SetupError(f"cannot read {shown_name(path)}: {reason}") from None


def shown_name(path: str) -> str:
    """Return the name of a file as printable text."""
    return path if path.isprintable() else ascii(path)


def _content(file: BinaryIO, limit: int) -> bytes:
    first = file.read(_PIECE)
    text = first.lstrip(_SPACES)
    if text[:2].lower() == b"0x":
        return _from_hex(file, first[len(first) - len(text) + 2 :], len(first), limit)
    if text and _TEXT.fullmatch(first) is not None:
        return _from_hex(file, first, len(first), limit)
    content = BytesIO()
    piece = first
    while piece:
        if content.tell() + len(piece) > limit:
            raise TooLarge(limit)
        content.write(piece)
        piece = file.read(_PIECE)
    return content.getvalue()


def _from_hex(file: BinaryIO, piece: bytes, at: int, limit: int) -> bytes:
    content, odd = BytesIO(), b""
    start = at - len(piece)
    while piece:
        digits = odd + piece.translate(None, _SPACES)
        even = len(digits) & ~1
        digits, odd = digits[:even], digits[even:]
        if content.tell() + even // 2 > limit:
            raise TooLarge(limit)
        try:
            content.write(bytes.fromhex(digits.decode("ascii")))
        except ValueError:
            raise NotHex(start, "not hex text") from None
        start, piece = at, file.read(_PIECE)
        at += len(piece)
    if odd:
        raise NotHex(start, "an odd number of hex digits")
    return content.getvalue()
