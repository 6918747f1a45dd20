"""`rollup-node history`: a chain's past in ranges of L1 blocks."""

from collections.abc import Sequence
from importlib import import_module

from rollup_node.node.options.errors import did_you_mean
from rollup_node.node.system.exit_codes import PROGRAM, SetupError

HELP = f"""usage: {PROGRAM} history plan|run|status|verify|report|safedb [--help]

  plan    the ranges of L1 blocks, the requests and, by the rate of ranges that are done, the hours
  run     derives the ranges that are missing, on one worker or on many, and writes tables
  status  what is done and what is missing, from the manifests alone
  verify  proves from the files alone that all seams close and that nothing is missing
  report  writes one HTML page: bytes, batches, inclusion delay, drops by rule, gaps
  safedb  adds the safe heads to a node's database, for optimism_safeHeadAtL1Block
"""
COMMANDS = {
    "plan": "history_run",
    "run": "history_run",
    "range": "history_range",
    "status": "history_status",
    "verify": "history_status",
    "report": "history_status",
    "safedb": "history_status",
}
PUBLIC = ("plan", "run", "status", "verify", "report", "safedb")


def main(arguments: Sequence[str]) -> int:
    """Run one of the commands. Raises SetupError for an unknown one."""
    name, *rest = arguments or ["--help"]
    if name in ("-h", "--help"):
        print(HELP, end="")
        return 0
    if name not in COMMANDS:
        commands = ", ".join(PUBLIC)
        raise SetupError(f"unknown command history {name[:80]!r}{did_you_mean(name, PUBLIC)}; commands are {commands}")
    module = import_module(f"rollup_node.tools.commands.{COMMANDS[name]}")
    code: int = module.main(rest) if name == "range" else getattr(module, name)(rest)
    return code
