"""What the files of a history prove: the seams and files of all ranges, and that their rows fit together."""

from collections.abc import Iterator, Mapping

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.tools.history.folder import HistoryFolder, RunFile
from rollup_node.tools.history.manifest import ManifestRow
from rollup_node.tools.history.ranges import L1Range, digest_of
from rollup_node.tools.history.row_checks import RangeRows
from rollup_node.tools.history.runner import INSTALL
from rollup_node.tools.history.seams import problems, progress
from rollup_node.tools.history.tables import Table


def history_problems(folder: HistoryFolder, run: RunFile) -> Iterator[str]:
    """Everything that keeps the files from being one gapless history of the plan, a line each.

    Raises SetupError for Parquet without pyarrow."""
    rows, damaged = folder.readable_manifests()
    yield from damaged
    yield from _strangers(rows, run)
    yield from problems(run.plan, rows, run.config.digest)
    for row in progress(run.plan, rows, run.config.digest).done.values():
        for text in (*folder.file_problems(row), *_row_problems(folder, row)):
            yield f"L1 blocks {row.range}: {text}"
    yield from folder.files_of_no_range(set(rows))


def history_digest(rows: Mapping[L1Range, ManifestRow]) -> str:
    """SHA-256 of the states and files of all ranges, in hex.

    That of the tables, whenever and wherever they were written."""
    ordered = sorted(rows.items())
    return digest_of([(each.first, each.last, row.start, row.end, sorted(row.files, key=str)) for each, row in ordered])


def _strangers(rows: Mapping[str, ManifestRow], run: RunFile) -> Iterator[str]:
    """Manifests that are not of this run's ranges."""
    plan = {each.name: each for each in run.plan}
    for name, row in rows.items():
        path = f"manifest/{name}.json"
        if row.range.name != name:
            yield f"{path}: it is that of L1 blocks {row.range}"
        elif name not in plan:
            yield f"{path}: the run has no range of L1 blocks {row.range}"
        elif row.config != run.config.digest:
            yield f"{path}: it is of another run"
        elif row.range != plan[name]:
            yield f"{path}: it ends at L1 block {row.last}, its range at {plan[name].last}"


def _row_problems(folder: HistoryFolder, row: ManifestRow) -> Iterator[str]:
    listed: set[str] = set()
    for file in row.files:
        table, _, rest = file.path.partition("/")
        is_placed = table == file.table and table in set(Table) and rest.startswith("day=")
        if not is_placed or rest.count("/") != 1 or f"/{row.range.name}." not in rest or file.path in listed:
            yield f"its manifest has {file.path} as a file of {file.table}"
            return
        listed.add(file.path)
    try:
        yield from RangeRows(folder.path, row).problems()
    except ModuleNotFoundError as error:
        raise SetupError(f"the rows of Parquet files need the package {error.name}: {INSTALL}") from None
