"""How the node ends: the exit codes, and the error that ends a start."""

from enum import Enum, IntEnum
from functools import cache


class ExitCode(IntEnum):
    """The exit codes of the node, of its processes and of its commands [LIF2 to LIF8]."""

    OK = 0
    """Stopped by a signal."""
    SETUP = 1
    """Setup failed or an option is wrong."""
    CRASH_LOOP = 3
    """A process keeps dying."""
    CRITICAL = 70
    """The node's own state contradicts itself, or the input of an Alt-DA commitment is lost."""
    HALT = 75
    """L1 requires a protocol version that the node does not support."""
    NETWORK_LEFT = 76
    """The network left the OP Stack's rules, and the node has derived the last block that it can."""
    FORK_MISMATCH = 77
    """The execution engine and the node have different forks."""
    INTERRUPTED = 130
    """A signal ended a command before its work was done."""


RESTART = 78
"""A process asks with it for a new start of the node or of its chain; the program does not exit [UPG26, LIF34]."""


class SetupError(Exception):
    """The node cannot start; the text is one line that says what is wrong and what to do.

    `code` is the member of Code of a finding that ended the start."""

    def __init__(self, text: object = "", code: Enum | None = None) -> None:
        super().__init__(text)
        self.code = code


PROGRAM = "rollup-node"
"""The command, which is also the name of the distribution."""


@cache
def version() -> str:
    """`v` and the version of the distribution."""
    # Deferred: importing it takes longer than the rest of `rollup-node --help` can afford.
    from importlib.metadata import version as installed_version

    return f"v{installed_version(PROGRAM)}"
