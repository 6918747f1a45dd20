"""How the node ends: the table of exit codes, and the error that ends a start."""

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of the node and of its processes (DESIGN 9)."""

    OK = 0
    """Stopped after a signal."""
    SETUP = 1
    """Set-up failed or the options are wrong."""
    CRASH_LOOP = 3
    """A process keeps dying."""
    CRITICAL = 70
    """The node's own state contradicts itself."""
    HALT = 75
    """A required protocol version is not supported."""
    INTERRUPTED = 130
    """A signal ended a command before its work was done."""


FATAL = frozenset({Exit.CRITICAL, Exit.HALT})
"""Exit codes by which one process ends the whole node, which then ends with the same code."""


class SetupError(Exception):
    """The node cannot start: the text is one line that says what is wrong and what to do."""


LONGEST_LINE = 2000


def one_line(text: str) -> str:
    """A text for a line of standard error, whatever file names and answers of others are in it: printable, cut."""
    line = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}..."
