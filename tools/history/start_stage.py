"""The engine stage of a range: a replay that starts at the safe head before the range, and writes nothing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.engine.calls.heads import L2BlockInfo
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.derivation import Drops
from rollup_node.stages.messages.engine import AttributesReady, L2BlocksRequest, L2BlocksResponse, PipelineStart
from rollup_node.stages.protocol.types import L2BlockContent
from rollup_node.tools.history.l1_view import RecentBlocks, read_blocks
from rollup_node.tools.history.manifest import L1Range, ManifestRow, Resume, RunConfig, State
from rollup_node.tools.inspect.l2_source import FileSource
from rollup_node.tools.inspect.replay import BlockComparison
from rollup_node.tools.inspect.replay_stage import RESET, RangeEnded, ReplayConfig, ReplayFailed, ReplayStage


class RangeStartConfig(msgspec.Struct, frozen=True):
    """A replay without end, up to which L1 block `first` is not in the range.

    It starts at L2 block `safe_head`, or with None at the newest whose L1 origin is surely not after `first` less
    `warmup`. With a file of L2 blocks, L1 is read from block `floor` on at the earliest. With `resume` there is no
    L2 source, and `overlap` is the file with the last blocks of the range before, None at genesis."""

    replay: ReplayConfig
    first: int
    warmup: int
    safe_head: int | None
    floor: int
    resume: Resume | None = None
    overlap: str | None = None


class RangeStartStage(ReplayStage):
    """State: that of the replay, and without an L2 source the last blocks that were derived."""

    def __init__(self, config: RangeStartConfig, bus: Bus, meter: Meter) -> None:
        super().__init__(config.replay, bus, meter)
        self._start = config
        self._recent = RecentBlocks() if config.overlap is None else read_blocks(Path(config.overlap))

    async def _find_start(self) -> PipelineStart:
        if self._start.resume is not None:
            return await self._continue(self._start.resume)
        number = self._start.safe_head
        if number is None:
            number = await self._warm_head()
        self._config = msgspec.structs.replace(self._config, first=number)
        return await super()._find_start()

    async def _continue(self, resume: Resume) -> PipelineStart:
        self._source = FileSource({})
        self._config = msgspec.structs.replace(self._config, first=resume.safe.number)
        base = await self._l1.ref(resume.base)
        if base is None:
            raise RangeEnded(f"L1 block {resume.base}, the first to read, does not exist")
        if resume.safe.number == self._config.rollup.genesis.l2.number:
            self._recent.add(L2BlockContent(resume.safe, ()))
        return PipelineStart(RESET, resume.safe, resume.config, base.id, resume.base_config)

    async def _compare(self, derived: AttributesReady) -> None:
        await super()._compare(derived)
        result = self._last_result
        if self._start.resume is not None and result is not None:
            self._recent.add(L2BlockContent(result.safe_head, derived.attributes.transactions))

    async def _answer_blocks_request(self, peer: ProcessId, request: L2BlocksRequest) -> None:
        if self._start.resume is None:
            await super()._answer_blocks_request(peer, request)
            return
        result = [self._recent.get(number) for number in range(request.first, request.last + 1)]
        if None in result:
            number = request.first + result.index(None)
            self._failure = (
                f"a span batch overlaps block {number}, of which only an L2 source has the contents: give one"
            )
            return
        blocks = tuple(item for item in result if item is not None)
        self._server.send(peer, L2BlocksResponse(RESET, request.first, request.last, blocks, None))

    def _check_parent_hash(self, drops: Drops) -> None:
        """Without an L2 source only the hashes of blocks that are known are compared."""
        if self._start.resume is None:
            super()._check_parent_hash(drops)

    async def _warm_head(self) -> int:
        """Return an L2 block's origin is never later than the block.

        The block of the time of the L1 block where the warm-up begins has that one, or an earlier one, as its
        origin."""
        rollup = self._config.rollup
        wanted = max(rollup.genesis.l1.number, self._start.first - self._start.warmup)
        ref = await self._l1.ref(wanted)
        if ref is None:
            raise ReplayFailed(f"L1 block {wanted}, where the warm-up begins, does not exist")
        later = max(0, ref.timestamp - rollup.genesis.l2_time) // rollup.block_time
        return rollup.genesis.l2.number + later

    def _default_base(self, safe: L2BlockInfo) -> int:
        return max(self._start.floor, super()._default_base(safe))

    async def _warn(self, text: str) -> None:
        """Where reading begins stands in the manifest."""

    async def _write_block(self, comparison: BlockComparison) -> None:
        """Blocks are written by the derivation process."""


build = RangeStartStage


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
    for item in plan:
        row = rows.get(item.name)
        if row is not None and row.range == item and row.config == config:
            done[item] = row
    return Progress(done, tuple(item for item in plan if item not in done))


def problems(plan: Sequence[L1Range], rows: Mapping[str, ManifestRow], config: str) -> list[str]:
    """Everything that keeps the manifests from being one gapless history of the plan, a line each."""
    done, missing = progress(plan, rows, config)
    result = [f"L1 blocks {item}: not derived" for item in missing]
    for row in done.values():
        result += [f"L1 blocks {row.range}: {text}" for text in _row_problems(row)]
    result += [f"seam {seam}" for seam in open_seams(done.values())]
    return result


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
