"""The engine stage of a range: a replay that starts at the safe head before the range, and writes nothing."""

import msgspec

from rollup_node.ipc.bus.bus import Bus
from rollup_node.node.inspect.replay import BlockComparison
from rollup_node.node.inspect.replay_stage import ReplayConfig, ReplayFailed, ReplayStage
from rollup_node.stages.engine.api.l2_block_info import L2BlockInfo
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.messages.engine import PipelineStart


class RangeStartConfig(msgspec.Struct, frozen=True):
    """A replay without end, up to which L1 block `first` is not in the range. It starts at L2 block `safe_head`, or
    with None at the newest whose L1 origin is surely not after `first` less `warmup`. With a file of L2 blocks, L1 is
    read from block `floor` on at the earliest."""

    replay: ReplayConfig
    first: int
    warmup: int
    safe_head: int | None
    floor: int


class RangeStartStage(ReplayStage):
    """State: that of the replay."""

    def __init__(self, config: RangeStartConfig, bus: Bus, meter: Meter) -> None:
        super().__init__(config.replay, bus, meter)
        self._start = config

    async def _find_start(self) -> PipelineStart:
        number = self._start.safe_head
        if number is None:
            number = await self._warm_head()
        self._config = msgspec.structs.replace(self._config, first=number)
        return await super()._find_start()

    async def _warm_head(self) -> int:
        """An L2 block's origin is never later than the block: the block of the time of the L1 block where the warm-up
        begins has that one, or an earlier one, as its origin."""
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
    """Returns the stage for the runtime."""
    return RangeStartStage(config, bus, meter)
