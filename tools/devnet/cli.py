"""The command `rollup-node devnet`."""

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from rollup_node.node.system.exit_codes import ExitCode
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.tools.devnet import status as views
from rollup_node.tools.devnet.child_programs import ProgramExited
from rollup_node.tools.devnet.files import NetworkFiles, l1_genesis, write_json, write_secrets
from rollup_node.tools.devnet.fork_offsets import SettingsError
from rollup_node.tools.devnet.l2_genesis import l2_genesis
from rollup_node.tools.devnet.network import StartFailed
from rollup_node.tools.devnet.run import RunResult, UnusableDirectory, data_directory, run
from rollup_node.tools.devnet.settings import DevnetSettings, parse, unmet, with_scenarios
from rollup_node.tools.devnet.status import NoProgress

SHOWN = ("blocks", "safe", "finalized", "output_roots_equal", "seconds", "processes")

PACKAGES = ("Crypto", "py_ecc", "rich")
"""What the extra `devnet` installs, by the names that are imported. Each is needed by some networks alone, which would
end with a traceback."""


def main(argv: Sequence[str]) -> int:
    """Run a local network; the exit code is 0 only when all output roots are equal, and the checks of --chaos hold."""
    started = time.monotonic()
    return exit_code(lambda: _run(argv, started))


def _run(argv: Sequence[str], started: float) -> int:
    settings = parse(argv)
    check_packages()
    if settings.prepare:
        return _prepare(settings)
    for scenario in settings.scenarios:
        if reason := unmet(scenario):
            raise SettingsError(f"--faults: {scenario.name}: {reason}")
    settings = with_scenarios(settings, settings.scenarios)
    with data_directory(settings.data_dir) as root:
        result = run(settings, root, views.choose(settings.json, settings.blocks), started)
    _print(result, settings.json)
    return 0 if result.passed else 1


def check_packages() -> None:
    """Raise SettingsError where what the extra `devnet` installs is not there."""
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise SettingsError(f"command devnet needs the package {missing[0]}: install rollup-node[devnet]")


def _print(result: RunResult, as_json: bool) -> None:
    if as_json:
        values = dataclasses.asdict(dataclasses.replace(result, verdicts=()))
        chaos = {} if result.chaos is None else {"chaos": values["chaos"]}
        print(json.dumps({name: values[name] for name in SHOWN} | chaos | _faults_as_json(result)))
        return
    if result.verdicts:
        from rollup_node.tools.faults.verdict import table

        print("\n".join(table(result.verdicts)))
    for line in () if result.chaos is None else result.chaos.lines():
        print(line)
    if result.output_roots_equal:
        heads = f"safe {result.safe}, finalized {result.finalized}"
        first = "no safe block" if result.safe == 0 else f"first safe block after {result.first_safe_seconds} s"
        print(f"{result.blocks} blocks, output roots equal on all nodes; {heads}; {first}, {result.seconds} s in all")
    else:
        print(f"output roots DIFFER first at block {result.first_difference}")


def _faults_as_json(result: RunResult) -> dict[str, list[dict[str, Any]]]:
    if not result.verdicts:
        return {}
    from rollup_node.tools.faults.verdict import summary

    return {"faults": [summary(verdict) for verdict in result.verdicts]}


def _prepare(settings: DevnetSettings) -> int:
    if settings.data_dir is None:
        raise SettingsError("--prepare: give the --data-dir to write into")
    with data_directory(settings.data_dir) as root:
        files, now = NetworkFiles(root), int(time.time())
        write_secrets(files, settings.nodes)
        genesis = l1_genesis(now, settings.l1_forks)
        write_json(files.l1_genesis, genesis)
        write_json(files.l1_chain, genesis["config"])
        write_json(files.l2_genesis, l2_genesis(settings.forks, now, settings.l2_alloc, bool(settings.dependencies)))
    print(f"wrote {files.l1_genesis.name}, {files.l2_genesis.name} and {files.jwt.name} into {settings.data_dir}")
    return 0


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
