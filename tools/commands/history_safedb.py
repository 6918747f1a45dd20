"""`rollup-node history safedb`: the safe heads of a history in a node's database."""

import os
from collections.abc import Iterator, Sequence

from rollup_node.node.options.errors import shown
from rollup_node.node.options.parsing import parse_options
from rollup_node.node.setup.chain import ChosenChain, choose_chain
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.engine.calls.safe_head_entries import PastSafeHeads, SafeHeadEntry
from rollup_node.stages.engine.process.safe_heads import SafeHeadStore
from rollup_node.stages.io.files.sqlite_file import StoreError
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.commands.flags import FlagParser
from rollup_node.tools.history.folder import HistoryFolder, RunFile, history_folder
from rollup_node.tools.history.manifest import Block, rollup_digest
from rollup_node.tools.history.report import history_problems
from rollup_node.tools.history.tables import Table, rows, table_files

DESCRIPTION = """Adds the safe heads of a history to the database of safe heads of a node that does not run, before
those that it has. The history is verified first. A node with --safedb.path FILE then answers
optimism_safeHeadAtL1Block for the L1 blocks of the history."""

EPILOG = """--safedb.path and the options that choose the chain are those of the node: --network, or --rollup.config
with --rollup.l1-chain-config."""


def safedb(arguments: Sequence[str]) -> int:
    """Run the command; 0 when the safe heads are in the file."""
    parser = FlagParser("history safedb", DESCRIPTION, EPILOG)
    parser.add_argument("--out", required=True, metavar="FOLDER", help="the folder of the history")
    flags, rest = parser.parse_known_args(list(arguments))
    values = parse_options([*rest, "--l1.beacon.ignore"], os.environ, parser.flags).values
    path = values["safedb.path"]
    if not path:
        raise SetupError("name the node's database: --safedb.path FILE")
    if not values["network"] and not values["rollup.config"]:
        raise SetupError("name the chain: either --network NAME or --rollup.config FILE")
    chosen = choose_chain(values)
    folder = history_folder(flags.out)
    run = folder.existing()
    past = _past(folder, run, chosen)
    try:
        store = SafeHeadStore(path, chosen.config, check=True)
        try:
            added = store.add_past(past, _entries(folder))
        finally:
            store.close()
    except StoreError as error:
        raise SetupError(str(error)) from None
    print(f"{added} safe heads of L1 blocks {past.before.l1_block.number} to {past.last} are in {shown(path)} now")
    return 0


def _past(folder: HistoryFolder, run: RunFile, chosen: ChosenChain) -> PastSafeHeads:
    """Return what the history holds. Raises SetupError where it cannot be imported."""
    where = shown(str(folder.path))
    if run.config.rollup != rollup_digest(chosen.config):
        raise SetupError(f"--out: {where} holds a history of another chain or rollup config, {run.chain}")
    if run.config.source == "none":
        raise SetupError(f"--out: the history in {where} was made without an L2 source, and has no hashes of L2 blocks")
    problem = next(history_problems(folder, run), None)
    if problem is not None:
        raise SetupError(f"--out: the history in {where} is not proved: {problem}: see history verify")
    ranges = run.plan
    manifests = folder.manifests()
    start = manifests[ranges[0].name].start
    return PastSafeHeads(SafeHeadEntry(_block(start.l1), _block(start.safe)), ranges[-1].last)


def _entries(folder: HistoryFolder) -> Iterator[SafeHeadEntry]:
    """Yield the rows of `safe_heads`."""
    for path in table_files(folder.path, Table.SAFE_HEADS):
        for l1_number, l1_hash, l2_number, l2_hash in rows(path, ("l1_number", "l1_hash", "l2_number", "l2_hash")):
            yield SafeHeadEntry(_block(Block(l1_number, l1_hash)), _block(Block(l2_number, l2_hash)))


def _block(block: Block) -> BlockId:
    """Return a block by its hash in bytes. Raises SetupError without a whole hash."""
    text = block.hash or ""
    try:
        value = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        value = b""
    if len(value) != 32:
        raise SetupError(f"block {block.number} has no hash in the history: {text[:80]!r}")
    return BlockId(block.number, value)
