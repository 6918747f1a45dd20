"""The engine stage of `rollup-node explain`: derives as `replay` does, and writes what was dropped and why instead of
the blocks."""

import time

import msgspec
import orjson

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.io.files.output import write_text
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import EXIT_REPORTED, ExitRequested
from rollup_node.stages.messages.derivation import Drop
from rollup_node.tools.inspect.drops_client import DropsClient
from rollup_node.tools.inspect.replay import BlockComparison
from rollup_node.tools.inspect.replay_stage import FAILURES, RESET, ReplayConfig, ReplayStage
from rollup_node.tools.inspect.row_formats import RowFormat

LAST_DROPS_TIMEOUT = 5.0
"""Seconds that the drops up to the end of the replay may take to arrive."""
STEP_SECONDS = 0.2


class ExplainConfig(msgspec.Struct, frozen=True):
    """A replay. With `last_l1` it ends when that L1 block has been read, even before the last L2 block, and drops at
    later L1 blocks are left out."""

    replay: ReplayConfig
    last_l1: int | None


class ExplainStage(ReplayStage):
    """State, beside the replay's: the exception that ended the replay, and the request whose response completes the
    drops up to that moment."""

    def __init__(self, config: ExplainConfig, bus: Bus, meter: Meter) -> None:
        super().__init__(config.replay, bus, meter)
        self._last_l1 = config.last_l1
        self._drops = DropsClient(bus, self._work.wake.set)
        self._end: Exception | None = None
        self._last_request = 0
        self._deadline = 0.0

    async def _step(self) -> float:
        self._drops.request_if_due()
        await self._write_drops()
        if self._end is None:
            return await self._continue_replay()
        if self._drops.is_complete(self._last_request):
            await self._write_drops()
            await self._exit(self._end)
        if time.monotonic() > self._deadline:
            await self._warn("derivation does not answer, later drops may be missing")
            await self._exit(self._end)
        return STEP_SECONDS

    async def _continue_replay(self) -> float:
        try:
            if self._is_past_last_l1():
                raise ExitRequested()
            return min(STEP_SECONDS, await self._advance())
        except (*FAILURES, ExitRequested) as end:
            self._end, self._last_request = end, self._drops.request()
            self._deadline = time.monotonic() + LAST_DROPS_TIMEOUT
            return STEP_SECONDS

    def _is_past_last_l1(self) -> bool:
        status, last = self._status, self._last_l1
        if last is None or status is None or status.current_l1 is None or status.reset != RESET:
            return False
        number = status.current_l1.number
        return number > last or (number == last and self._l1_exhausted)

    async def _exit(self, end: Exception) -> None:
        """Ends the process as the replay ended. Raises ExitRequested."""
        if self._drops.lost:
            await self._warn(f"{self._drops.lost} drops were discarded before they were read")
        if isinstance(end, ExitRequested):
            raise end
        await self._write_failure(end)
        raise ExitRequested(EXIT_REPORTED)

    async def _write_drops(self) -> None:
        lines = [self._drop_line(drop) for drop in self._drops.take() if self._is_in_range(drop)]
        if lines:
            await write_text(self._config.output, "".join(lines))

    def _is_in_range(self, drop: Drop) -> bool:
        return self._last_l1 is None or drop.origin is None or drop.origin.number <= self._last_l1

    def _drop_line(self, drop: Drop) -> str:
        if self._config.form is RowFormat.JSON:
            return orjson.dumps(drop.shown()).decode() + "\n"
        return f"L1 {drop.origin.number if drop.origin is not None else 'unknown'}  {drop.text}\n"

    async def _write_block(self, comparison: BlockComparison) -> None:
        """Blocks are not written."""


def build(config: ExplainConfig, bus: Bus, meter: Meter) -> ExplainStage:
    """Returns the stage for the runtime."""
    return ExplainStage(config, bus, meter)
