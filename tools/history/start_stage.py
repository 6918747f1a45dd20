"""The engine stage of a range: a replay that starts at the safe head before the range, and writes nothing."""

from pathlib import Path

import msgspec

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.engine.calls.heads import L2BlockInfo
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.derivation import Drops
from rollup_node.stages.messages.engine import AttributesReady, L2BlocksRequest, L2BlocksResponse, PipelineStart
from rollup_node.stages.protocol.types import L2BlockContent
from rollup_node.tools.history.l1_view import RecentBlocks, read_blocks
from rollup_node.tools.history.manifest import Resume
from rollup_node.tools.inspect.l2_source import FileSource
from rollup_node.tools.inspect.replay import BlockComparison
from rollup_node.tools.inspect.replay_stage import RESET, ReplayConfig, ReplayFailed, ReplayStage


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
            raise ReplayFailed(f"L1 block {resume.base}, the first to read, does not exist")
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
        found = [self._recent.get(number) for number in range(request.first, request.last + 1)]
        if None in found:
            number = request.first + found.index(None)
            self._failure = (
                f"a span batch overlaps block {number}, of which only an L2 source has the contents: give one"
            )
            return
        blocks = tuple(each for each in found if each is not None)
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


def build(config: RangeStartConfig, bus: Bus, meter: Meter) -> RangeStartStage:
    """Return the stage for the runtime."""
    return RangeStartStage(config, bus, meter)
