"""The command `rollup-node devnet`: one chain, or several with `--chains`."""

import dataclasses
import json
import time
from collections.abc import Sequence

from rollup_node.tools.devnet import cli
from rollup_node.tools.devnet.fork_server import fork_server
from rollup_node.tools.devnet.ports import reserved_numbers
from rollup_node.tools.devnet.run import data_directory
from rollup_node.tools.multichain.programs import ChainsPrograms, port_count
from rollup_node.tools.multichain.run import ChainsResult, clear, run
from rollup_node.tools.multichain.settings import parse


def main(argv: Sequence[str]) -> int:
    """Run a local network; the exit code is 0 only when all roots are equal."""
    started = time.monotonic()
    if all(word.partition("=")[0] != "--chains" for word in argv):
        return cli.main(argv)
    return cli.exit_code(lambda: _run(argv, started))


def _run(argv: Sequence[str], started: float) -> int:
    settings = parse(argv)
    cli.check_packages()
    with (
        data_directory(settings.data_dir) as root,
        fork_server() as forks,
        reserved_numbers(settings.base_port, port_count(settings)) as numbers,
    ):
        clear(root)
        result = run(ChainsPrograms(settings, root, numbers, forks), settings, started)
    if settings.json:
        print(json.dumps(dataclasses.asdict(result)))
    else:
        _print(result)
    return 1 if result.differences else 0


def _print(result: ChainsResult) -> None:
    heads = ", ".join(f"{chain} safe {safe}" for chain, safe in result.safe.items())
    print(f"{heads}; messages {result.messages}, invalidated {result.invalidated} by {result.rules}")
    done = f"{result.kills} kills, {result.reorgs} L1 reorgs, {result.lies} lies"
    print(f"{done}, {result.super_roots} super roots, {result.seconds} s in all")
    print("\n".join(result.differences) or "output roots and super roots are equal everywhere")
