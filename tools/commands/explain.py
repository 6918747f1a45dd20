"""`rollup-node explain`.

Why blocks, batches, channels or frames were dropped by a running node or in a replay, and what a code of the log
means."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import orjson

from rollup_node.node.options.errors import did_you_mean
from rollup_node.node.system.exit_codes import PROGRAM, SetupError
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.texts import escaped_line
from rollup_node.tools.commands.flags import (
    FlagParser,
    block_number,
    check_l1_range,
    check_l2_range,
    check_l2_source,
    url,
)
from rollup_node.tools.inspect.status_screen import call_node

DESCRIPTION = """`explain CODE` prints what a code of the log means, such as BLOB-EXPIRED, and what to do. Without one
it lists what derivation dropped, ignored, timed out or flushed, each with the L1 block that was being read, the rule
and its values. With --rpc a running node returns the last 1000 drops of its derivation process. Otherwise L2 is derived
from L1 as by `rollup-node replay`, from the safe head N on, until block M is derived or L1 block L is read."""
EPILOG = "Without --rpc options of the node for its L1, beacon node, network and logs are accepted as well."
METHOD = "explain_drops"
UNBOUNDED = (1 << 63) - 1


def main(arguments: Sequence[str]) -> int:
    """Run the command; 0 when the whole range was read."""
    if arguments and not arguments[0].startswith("-"):
        return _explain_code(arguments)
    parser = FlagParser("explain", DESCRIPTION, EPILOG)
    parser.add_argument("--rpc", type=url, metavar="URL", help="JSON-RPC of a running node")
    parser.add_argument("--from-l2", type=block_number, metavar="N", help="the safe head to begin with")
    parser.add_argument("--to-l2", type=block_number, metavar="M", help="end when this block is derived")
    parser.add_l2_source()
    parser.add_argument("--from-l1", type=block_number, metavar="K", help="begin reading (with --rpc: listing) here")
    parser.add_argument("--to-l1", type=block_number, metavar="L", help="end behind this L1 block")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_timeout()
    flags, _ = parser.parse_known_args(list(arguments))
    if flags.to_l1 is not None and flags.from_l1 is not None:
        check_l1_range(flags)
    if flags.rpc is not None:
        return _explain_node(parser.parse_all(arguments))
    _check(flags)
    return _explain_replay(parser, arguments)


def _explain_code(arguments: Sequence[str]) -> int:
    name, *rest = arguments
    if rest:
        raise SetupError(f"explain {name}: no more arguments after a code")
    code = next((code for code in Code if code.text == name.upper()), None)
    if code is None:
        codes = [code.text for code in Code]
        hint = did_you_mean(name.upper(), codes) or f"; there are {', '.join(codes)}"
        raise SetupError(f"explain {name}: no such code{hint}")
    print(f"{code.text}: {code.meaning}\n{code.remedy}")
    return 0


# --- a running node ------------------------------------------------------------------------------------------------


def _explain_node(flags: argparse.Namespace) -> int:
    for name in ("from_l2", "to_l2", "l2", "l2_blocks", "timeout"):
        if getattr(flags, name) is not None:
            raise SetupError(f"--{name.replace('_', '-')} has no meaning with --rpc")
    total, drops = asyncio.run(_fetch_drops(flags.rpc))
    first, last = flags.from_l1 or 0, UNBOUNDED if flags.to_l1 is None else flags.to_l1
    listed = [drop for drop in drops if drop["l1_block"] is None or first <= drop["l1_block"]["number"] <= last]
    for drop in listed:
        print(orjson.dumps(drop).decode() if flags.json else _line(drop))
    if not listed:
        print(f"{PROGRAM}: nothing was dropped", file=sys.stderr)
    if total > len(drops):
        print(f"{PROGRAM}: {total - len(drops)} older drops are no longer known", file=sys.stderr)
    return 0


def _line(drop: dict[str, Any]) -> str:
    block = drop["l1_block"]
    return escaped_line(f"L1 {'unknown' if block is None else block['number']}  {drop['text']}")


async def _fetch_drops(endpoint: str) -> tuple[int, list[dict[str, Any]]]:
    answer = await call_node(endpoint, METHOD, "it is of another version")
    try:
        return drops_of(answer)
    except (KeyError, TypeError, ValueError):
        raise SetupError(f"--rpc: unexpected response to {METHOD}: is the node of this version?") from None


def drops_of(response: Any) -> tuple[int, list[dict[str, Any]]]:
    """All drops so far, and those that the node still knows.

    Raises KeyError, TypeError or ValueError for another response."""
    total = response["total"]
    if type(total) is not int:
        raise ValueError("not a number of drops")
    return total, [_checked(drop) for drop in response["drops"]]


def _checked(drop: Any) -> dict[str, Any]:
    block = drop["l1_block"]
    if not isinstance(drop["text"], str) or not (block is None or isinstance(block["number"], int)):
        raise ValueError("not a drop")
    return {**drop}


# --- a replay ------------------------------------------------------------------------------------------------------


def _explain_replay(parser: FlagParser, arguments: Sequence[str]) -> int:
    from rollup_node.node.setup.plan import derivation_config
    from rollup_node.node.system.process_table import ProcessSpec
    from rollup_node.tools.commands.common import Outputs, last_process, parse, run
    from rollup_node.tools.commands.replay import replay_config
    from rollup_node.tools.inspect.explain_stage import ExplainConfig
    from rollup_node.tools.inspect.row_formats import RowFormat

    command = parse(parser, arguments, derives=True)
    flags, chain = command.flags, command.chain
    outputs = Outputs.open()
    derivation = derivation_config(command.values, chain, drops_are_read=True, ahead=0)
    last, form = UNBOUNDED if flags.to_l2 is None else flags.to_l2, RowFormat.JSON if flags.json else RowFormat.TEXT
    replay = replay_config(command, outputs, flags.from_l2, last, form, flags.from_l1)
    config = ExplainConfig(replay, flags.to_l1)
    return run(
        command,
        [
            ProcessSpec("derivation", "rollup_node.stages.derivation.process.stage:build", derivation),
            last_process("engine", "inspect.explain_stage", config, outputs),
        ],
    )


def _check(flags: argparse.Namespace) -> None:
    if flags.from_l2 is None:
        raise SetupError("give --rpc URL of a running node, or --from-l2 N to derive from the safe head N on")
    if flags.to_l2 is None and flags.to_l1 is None:
        raise SetupError("give the end: --to-l2 M or --to-l1 L")
    if flags.to_l2 is not None:
        check_l2_range(flags)
    check_l2_source(flags)
