"""`rollup-node bundle-check`: checks a file with the upgrade transactions of a fork, and prints them [CMD15, UPG21]."""

from collections.abc import Sequence
from typing import Any

import orjson

from rollup_node.node.setup.bundles import option_of, read_bundle
from rollup_node.stages.protocol.config import UpgradeBundle
from rollup_node.stages.protocol.deposits import decode_deposit
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS, DRAFTS, SELECTABLE
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.texts import escaped_line
from rollup_node.stages.protocol.upgrade_bundle import BundleFile, deployments
from rollup_node.stages.protocol.upgrade_transactions import carried_bundle, encode_bundle, load_bundle
from rollup_node.tools.commands.flags import FlagParser

DESCRIPTION = """Checks a file with the upgrade transactions of a fork (<fork>_nut_bundle.json of op-node's repository)
by the rules that need no sources: each deployment is a call of the deployer, the arguments of L2ContractsManager name
every address, and the last transaction calls it. Then prints the SHA-256, to be compared with the one in
op-core/nuts/fork_lock.toml of the op-node release that the chain runs, and a line for each transaction; = marks those
that the bundle of this version has as well. Exit code 1 for a wrong file."""
COLUMNS = "{:>2} {} {:50} {:>10}  {:42}  {}"


def main(arguments: Sequence[str]) -> int:
    """Print the table. Raises OptionError for a file that is wrong."""
    parser = FlagParser("bundle-check", DESCRIPTION)
    parser.add_argument("file", metavar="FILE", help="the bundle")
    parser.add_argument("--fork", choices=list(BUNDLE_FORKS), default=list(BUNDLE_FORKS)[-1], help="the fork it is for")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    flags = parser.parse_all(arguments)
    values = _values(flags.fork, read_bundle(flags.fork, flags.file))
    if flags.json:
        print(orjson.dumps(values, option=orjson.OPT_INDENT_2).decode())
    else:
        _print(values)
    return 0


def _values(fork: str, file: BundleFile) -> dict[str, Any]:
    encoded, ours = encode_bundle(fork, file, "", ""), load_bundle(fork)
    carried = next((item for item in BUNDLE_FORKS[fork].carried if item.sha256 == file.sha256), None)
    known = _known_by_its_transactions(fork, encoded) if carried is None else carried.origin
    addresses = {index: to_hex(item.address) for index, item in deployments(file)}
    return {
        "fork": fork,
        "sha256": file.sha256,
        "known": DRAFTS.get(file.sha256, known),
        "confirmed_by": (None if carried is None else carried.confirmed_by) or None,
        "used": ours.sha256 == file.sha256,
        "extra_gas": file.extra_gas,
        "transactions_gas": file.gas,
        "block_gas": encoded.gas,
        "transactions": [
            {
                "intent": entry.intent,
                "gas": entry.gas,
                "address": addresses.get(index),
                "source_hash": to_hex(decode_deposit(raw).source_hash),
                "same": raw in ours.transactions,
            }
            for index, (entry, raw) in enumerate(zip(file.entries, encoded.transactions, strict=True))
        ],
    }


def _known_by_its_transactions(fork: str, encoded: UpgradeBundle) -> str | None:
    """Return a bundle of this version with other spaces or line ends has another SHA-256."""
    for item in BUNDLE_FORKS[fork].carried:
        carried = carried_bundle(fork, item)
        if (carried.transactions, carried.gas) == (encoded.transactions, encoded.gas):
            return f"the transactions of {item.sha256[:8]} in a file that was changed ({item.origin})"
    return None


def _print(values: dict[str, Any]) -> None:
    fork = values["fork"]
    known = values["known"] or "not known to this version"
    print(f"SHA-256        {values['sha256']}")
    print(f"known as       {known}{', the bundle that this version uses' if values['used'] else ''}")
    lock = "op-core/nuts/fork_lock.toml of op-node's release for the fork"
    then = f", then give --{option_of(fork)}=FILE" if fork in SELECTABLE else ""
    unconfirmed = f"nothing: compare the SHA-256 with {lock}{then}"
    print(f"confirmed by   {values['confirmed_by'] or unconfirmed}")
    transactions = values["transactions"]
    print(f"transactions   {len(transactions)} with {values['transactions_gas']:,} gas")
    print(f"block          {values['block_gas']:,} gas on top of the chain's limit")
    print()
    print(COLUMNS.format("#", " ", "INTENT", "GAS", "ADDRESS", "SOURCE HASH"))
    for index, item in enumerate(transactions):
        mark = "=" if item["same"] else " "
        gas = f"{item['gas']:,}"
        print(
            COLUMNS.format(
                index, mark, escaped_line(item["intent"])[:50], gas, item["address"] or "-", item["source_hash"][2:]
            )
        )
