"""`rollup-node checkpoint`: a block root for `l1.checkpoint`, by one beacon node and as others see it [CMD16]."""

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import orjson

from rollup_node.node.checks.beacon import BeaconReader
from rollup_node.node.system.exit_codes import ExitCode, SetupError
from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.l1.light_client.containers import BeaconBlockHeader
from rollup_node.stages.l1.light_client.network import BeaconNetwork
from rollup_node.stages.l1.light_client.ssz import Root
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.texts import duration, escaped_line
from rollup_node.tools.commands.flags import FlagParser, url
from rollup_node.tools.preflight.light_client import (
    LightClientGap,
    finalized_header,
    known_network,
    light_client_gap,
    root_at,
)

DESCRIPTION = """Prints the root of the newest finalized block of L1's beacon chain, for --l1.checkpoint of the node.
The root is all that the node then takes on trust, so do not ask one server alone: give beacon nodes of other operators
after the first. Each is asked for its block in the same slot. Exit code 1 if one has another root there, or none of
them has the same."""
SECONDS = 10.0
MAX_OTHERS = 16


class Finalized(NamedTuple):
    """The newest finalized block of a beacon node; `network` None for a private one."""

    name: str
    header: BeaconBlockHeader
    network: BeaconNetwork | None
    gap: LightClientGap | None

    def age(self, now: float) -> str:
        """Return the age of the block with the network's name, empty for a private one."""
        if self.network is None:
            return ""
        return f", {self.network.name}, {duration(now - self.network.time_of(self.header.slot))} old"


class Answer(NamedTuple):
    """What another beacon node has in the same slot; without a root `problem` says why."""

    name: str
    root: Root | None
    problem: str = ""


def main(arguments: Sequence[str]) -> int:
    """Run the command; SETUP if the answers do not confirm the root. Raises SetupError if there is none."""
    parser = FlagParser("checkpoint", DESCRIPTION)
    parser.add_argument("beacon", type=url, metavar="URL", help="the beacon node whose finalized block is taken")
    parser.add_argument("others", type=url, nargs="*", default=[], metavar="OTHER", help="beacon nodes to compare with")
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    flags = parser.parse_all(arguments)
    if len(flags.others) > MAX_OTHERS:
        raise SetupError(f"{len(flags.others)} beacon nodes to compare with: give at most {MAX_OTHERS}")
    first, answers = asyncio.run(_ask(flags.beacon, flags.others))
    root = first.header.root
    roots = [answer.root for answer in answers if answer.root is not None]
    is_confirmed = all(other == root for other in roots) and (bool(roots) or not answers)
    if flags.json:
        print(orjson.dumps(_as_json(first, answers, is_confirmed)).decode())
    else:
        _print(first, answers)
    return ExitCode.OK if is_confirmed else ExitCode.SETUP


async def _ask(beacon: str, others: Sequence[str]) -> tuple[Finalized, list[Answer]]:
    reader = BeaconReader(beacon, None, SECONDS)
    try:
        header = await finalized_header(reader)
        first = Finalized(reader.name, header, await known_network(reader), await light_client_gap(reader))
    except EndpointError as failure:
        raise SetupError(f"{failure}: give a beacon node that answers") from None
    return first, await asyncio.gather(*(_ask_other(other, header.slot) for other in others))


async def _ask_other(beacon: str, slot: int) -> Answer:
    reader = BeaconReader(beacon, None, SECONDS)
    try:
        root = await root_at(reader, slot)
    except EndpointError as failure:
        return Answer(reader.name, None, str(failure))
    return Answer(reader.name, root, "" if root else f"{reader.name}: it has no block in slot {slot}")


def _print(first: Finalized, answers: Sequence[Answer]) -> None:
    """Print the root alone on a line of its own, for scripts; all else goes to standard error."""
    root = first.header.root
    print(to_hex(root), flush=True)
    lines = [f"{first.name}: finalized, slot {first.header.slot}{first.age(time.time())}"]
    for name, other, problem in answers:
        verdict = problem or (f"{name}: the same" if other == root else f"{name}: ANOTHER ROOT {to_hex(other or b'')}")
        lines.append(verdict)
    if not answers:
        lines.append("this is the word of one beacon node: give others after it to compare with")
    if first.gap is not None:
        lines.append(f"{first.gap.text}: it does not serve light clients; {first.gap.advice}")
    for line in lines:
        print(escaped_line(line), file=sys.stderr)


def _as_json(first: Finalized, answers: Sequence[Answer], is_confirmed: bool) -> dict[str, object]:
    return {
        "root": to_hex(first.header.root),
        "slot": first.header.slot,
        "network": None if first.network is None else first.network.name,
        "beacon": first.name,
        "serves_light_clients": first.gap is None,
        "others": [
            {"beacon": name, "root": None if root is None else to_hex(root), "problem": problem or None}
            for name, root, problem in answers
        ],
        "confirmed": is_confirmed,
    }
