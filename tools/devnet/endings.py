"""How a command that runs a local network ends where it cannot go on: by one line, and an exit code."""

import sys
from collections.abc import Callable

from rollup_node.node.system.exit_codes import ExitCode
from rollup_node.stages.io.http.jsonrpc import EndpointError, RpcFailure
from rollup_node.tools.devnet.child_programs import ProgramExited
from rollup_node.tools.devnet.network import StartFailed
from rollup_node.tools.devnet.run import UnusableDirectory
from rollup_node.tools.devnet.settings import SettingsError
from rollup_node.tools.devnet.status import NoProgress

FAILURES = (
    SettingsError,
    UnicodeDecodeError,
    ProgramExited,
    StartFailed,
    UnusableDirectory,
    NoProgress,
    EndpointError,
    RpcFailure,
    OSError,
)


def failure_text(error: Exception) -> str:
    """Return one of FAILURES in words."""
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
    return str(error)


def exit_code(command: Callable[[], int], *others: type[Exception]) -> int:
    """Return the exit code of a command, whose failure, one of FAILURES or `others`, is printed as one line."""
    failures: tuple[type[Exception], ...] = (*FAILURES, *others)
    try:
        return command()
    except failures as error:
        print(f"error: {failure_text(error)}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted before the output roots were compared", file=sys.stderr)
        return ExitCode.INTERRUPTED
    return 1
