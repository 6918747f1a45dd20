"""How a command that runs a local network ends where it cannot go on: by one line, and an exit code."""

import sys
from collections.abc import Callable

from rollup_node.node.system.exit_codes import ExitCode
from rollup_node.stages.io.jsonrpc import EndpointError, RpcFailure
from rollup_node.tools.devnet.child_programs import ProgramExited
from rollup_node.tools.devnet.faults.injector import NoRecovery
from rollup_node.tools.devnet.network import StartFailed
from rollup_node.tools.devnet.run import NoProgress, UnusableDirectory
from rollup_node.tools.devnet.settings import SettingsError
from rollup_node.tools.faults.scenario import ScenarioError

FAILURES = (
    SettingsError,
    ScenarioError,
    UnicodeDecodeError,
    ProgramExited,
    StartFailed,
    UnusableDirectory,
    NoProgress,
    NoRecovery,
    EndpointError,
    RpcFailure,
)


def exit_code(command: Callable[[], int]) -> int:
    """The exit code of a command, whose failure is printed as one line."""
    try:
        return command()
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"error: {place}{error.strerror or error}", file=sys.stderr)
    except FAILURES as error:
        print(f"error: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted before the output roots were compared", file=sys.stderr)
        return ExitCode.INTERRUPTED
    return 1
