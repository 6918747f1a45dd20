"""Files of bytes, raw or as hex text, read in pieces so that memory holds only their content."""

import re
from io import BytesIO
from typing import BinaryIO

from rollup_node.node.system.exit_codes import SetupError

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
    """The bytes of a file (`-` is standard input), or those of its hex text.

    Raises TooLarge for more than `limit` bytes, NotHex for malformed hex text, SetupError for an unreadable file."""
    try:
        with open("/dev/stdin" if path == "-" else path, "rb") as file:
            return _content(file, limit)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SetupError(f"cannot read {shown_name(path)}: {reason}") from None


def shown_name(path: str) -> str:
    """The name of a file as printable text."""
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
