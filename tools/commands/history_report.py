"""`rollup-node history report`: a history as a page of HTML."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rollup_node.node.options.errors import shown
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.tools.commands.flags import FlagParser
from rollup_node.tools.history.folder import HistoryFolder, history_folder
from rollup_node.tools.history.report import ReportValues, report_page
from rollup_node.tools.history.runner import INSTALL
from rollup_node.tools.history.seams import problems
from rollup_node.tools.history.table_rows import rows, table_files
from rollup_node.tools.history.tables import Table

DESCRIPTION = """Writes one HTML page about a history: bytes per L2 block, batches per day, inclusion delay, drops by
rule, and gaps. The page needs no other file and no network."""


def report(arguments: Sequence[str]) -> int:
    """Runs the command; 0 when the page is written."""
    parser = FlagParser("history report", DESCRIPTION)
    parser.add_argument("--out", required=True, metavar="FOLDER", help="the folder of the history")
    parser.add_argument("--html", required=True, metavar="FILE", help="the page; a file that exists is not replaced")
    flags = parser.parse_all(arguments)
    folder = history_folder(flags.out)
    run = folder.existing()
    values = ReportValues()
    _add(folder, Table.L2_BLOCKS, ("l1_time", "time", "bytes"), values.add_blocks)
    _add(folder, Table.BATCHES, ("l1_time",), values.add_batches)
    _add(folder, Table.DROPS, ("rule", "effect", "reason"), values.add_drops)
    title = f"{run.chain}: L1 blocks {run.config.first} to {run.last}"
    page = report_page(title, values, problems(run.plan, folder.manifests(), run.config.digest))
    try:
        with open(flags.html, "x", encoding="utf-8") as file:
            file.write(page)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SetupError(f"--html: cannot write {shown(flags.html)}: {reason}") from None
    return 0


def _add(
    folder: HistoryFolder, table: Table, columns: tuple[str, ...], add: Callable[[Iterable[tuple[Any, ...]]], None]
) -> None:
    for path in table_files(folder.path, table):
        try:
            add(rows(path, columns))
        except ModuleNotFoundError as error:
            raise SetupError(f"Parquet files need the package {error.name}: {INSTALL}") from None
        except (OSError, ValueError, TypeError, OverflowError) as error:
            raise SetupError(f"{shown(str(path))} is unreadable: {error}") from None
