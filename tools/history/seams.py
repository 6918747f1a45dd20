"""Whether ranges fit together: the end state of one is the start state of the next. Works on manifests alone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from rollup_node.tools.history.manifest import ManifestRow, State
from rollup_node.tools.history.ranges import L1Range, RunConfig

NO_VERDICTS = (
    "no verdicts, for want of an L2 source: inputs, frames, channels and batches are read but not checked against L2,"
    " and the tables of L2 blocks and safe heads are empty"
)
ASSUMED = (
    "without an L2 source the hashes of L2 blocks are unknown: each batch is taken to have the parent that it claims,"
    " and no block is taken to be invalid in execution; all other rules are checked"
)
FIELDS = {
    "l1": "last L1 block",
    "safe": "safe head",
    "origin": "L1 origin of the safe head",
    "system_config": "system config",
    "channels": "open channels",
}


def caveats(config: RunConfig) -> tuple[str, ...]:
    """Return what a history without an L2 source is not."""
    if config.is_assumed:
        return (ASSUMED,)
    return () if config.has_verdicts else (NO_VERDICTS,)


class OpenSeam(NamedTuple):
    """A seam that does not close: the range after it, and what differs."""

    after: L1Range
    range: L1Range
    differs: tuple[str, ...]

    def __str__(self) -> str:
        return f"L1 {self.after.last}/{self.range.first}: {', '.join(self.differs)} differ"


def differences(end: State, start: State) -> tuple[str, ...]:
    """Return what differs between the end of a range and the start of the next; empty where the seam closes."""
    if end.digest == start.digest:
        return ()
    return tuple(text for name, text in FIELDS.items() if getattr(end, name) != getattr(start, name))


def open_seams(rows: Iterable[ManifestRow]) -> Iterator[OpenSeam]:
    """Yield the seams between adjacent ranges that do not close, in order of L1."""
    ordered = sorted(rows, key=lambda row: row.first)
    for before, row in pairwise(ordered):
        differs = differences(before.end, row.start) if before.last + 1 == row.first else ()
        if differs:
            yield OpenSeam(before.range, row.range, differs)


class Progress(NamedTuple):
    """The ranges of a plan that are complete, and those that are to be run."""

    done: dict[L1Range, ManifestRow]
    missing: tuple[L1Range, ...]


def progress(plan: Sequence[L1Range], rows: Mapping[str, ManifestRow], config: str) -> Progress:
    """Compare a plan with the manifests by name; those of another configuration or length count as missing."""
    done = {}
    for each in plan:
        row = rows.get(each.name)
        if row is not None and row.range == each and row.config == config:
            done[each] = row
    return Progress(done, tuple(each for each in plan if each not in done))


def problems(plan: Sequence[L1Range], rows: Mapping[str, ManifestRow], config: str) -> list[str]:
    """Everything that keeps the manifests from being one gapless history of the plan, a line each."""
    done, missing = progress(plan, rows, config)
    found = [f"L1 blocks {each}: not derived" for each in missing]
    for row in done.values():
        found += [f"L1 blocks {row.range}: {text}" for text in _row_problems(row)]
    found += [f"seam {seam}" for seam in open_seams(done.values())]
    return found


def _row_problems(row: ManifestRow) -> Iterator[str]:
    """Yield what contradicts itself within a manifest."""
    start, end = row.start, row.end
    if start.l1.number != row.first - 1:
        yield f"the start state is that of L1 block {start.l1.number}"
    if end.l1.number != row.last:
        yield f"the end state is that of L1 block {end.l1.number}"
    if end.safe.number - start.safe.number != row.l2_blocks:
        yield f"{row.l2_blocks} L2 blocks lead from {start.safe.number} to {end.safe.number}"
    listed = sum(file.rows for file in row.files if file.table == "l2_blocks")
    if listed != row.l2_blocks:
        yield f"the files have {listed} L2 blocks, the range {row.l2_blocks}"
    if row.has_verdicts and row.resume is None and end.safe.hash is None:
        yield f"the L2 source gave no hash of block {end.safe.number}, so this end is compared by number only"
