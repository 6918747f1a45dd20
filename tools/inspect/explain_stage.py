"""The engine stage of `rollup-node explain`.

Derives as `replay` does, and writes what was dropped and why instead of the blocks."""

import asyncio
import time
from typing import NoReturn

import msgspec
import orjson

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.requests import RequestClient
from rollup_node.stages.io.task import EXIT_REPORTED, ExitRequested
from rollup_node.stages.messages.derivation import Drop, DropsRequest
from rollup_node.tools.inspect.replay import BlockComparison
from rollup_node.tools.inspect.replay_stage import FAILURES, RESET, ReplayConfig, ReplayStage
from rollup_node.tools.inspect.row_formats import RowFormat, write_text

LAST_DROPS_TIMEOUT = 5.0
"""Seconds that the drops up to the end of the replay may take to arrive."""
STEP_SECONDS = 0.2


class ExplainConfig(msgspec.Struct, frozen=True):
    """A replay.

    With `last_l1` it ends when that L1 block has been read, even before the last L2 block, and drops at later L1
    blocks are left out."""

    replay: ReplayConfig
    last_l1: int | None


class ExplainStage(ReplayStage):
    """State, beside the replay's.

    The number of the next drop to read, and how many were discarded before they were read."""

    def __init__(self, config: ExplainConfig, bus: Bus, meter: Meter) -> None:
        super().__init__(config.replay, bus, meter)
        self._last_l1 = config.last_l1
        self._drops = RequestClient(bus, "derivation.drops")
        self._next = self._lost = 0
        self._due_at = 0.0

    async def _step(self) -> float:
        if time.monotonic() >= self._due_at:
            first = self._next
            await self._write_drops(STEP_SECONDS)
            # While there are drops they are read without a pause: derivation waits for that.
            self._due_at = 0.0 if self._next > first else time.monotonic() + STEP_SECONDS
        try:
            if self._is_past_last_l1():
                raise ExitRequested()
            seconds = await self._advance()
            return min(seconds, max(0.0, self._due_at - time.monotonic()))
        except (*FAILURES, ExitRequested) as end:
            if not await self._write_drops(LAST_DROPS_TIMEOUT):
                await self._warn("derivation does not answer, later drops may be missing")
            await self._exit(end)

    def _is_past_last_l1(self) -> bool:
        status, last = self._status, self._last_l1
        if last is None or status is None or status.current_l1 is None or status.reset != RESET:
            return False
        number = status.current_l1.number
        return number > last or (number == last and self._l1_exhausted)

    async def _exit(self, end: Exception) -> NoReturn:
        """End the process as the replay ended. Raises ExitRequested."""
        if self._lost:
            await self._warn(f"{self._lost} drops were discarded before they were read")
        if isinstance(end, ExitRequested):
            raise end
        await self._write_failure(end)
        raise ExitRequested(EXIT_REPORTED)

    async def _write_drops(self, timeout: float) -> bool:
        """Write the drops that were not read yet; return whether derivation has answered in time for all of them."""
        while True:
            try:
                async with asyncio.timeout(timeout):
                    page = await self._drops.request(DropsRequest, self._next)
            except TimeoutError:
                return False
            self._lost += max(0, page.first - self._next)
            self._next = max(self._next, page.first)
            new = page.drops[self._next - page.first :]
            self._next += len(new)
            lines = [self._drop_line(drop) for drop in new if self._is_in_range(drop)]
            if lines:
                await write_text(self._config.output, "".join(lines))
            if not new or self._next >= page.total:
                return True

    def _is_in_range(self, drop: Drop) -> bool:
        return self._last_l1 is None or drop.origin is None or drop.origin.number <= self._last_l1

    def _drop_line(self, drop: Drop) -> str:
        if self._config.form is RowFormat.JSON:
            return orjson.dumps(drop.shown()).decode() + "\n"
        return f"L1 {drop.origin.number if drop.origin is not None else 'unknown'}  {drop.text}\n"

    async def _write_block(self, comparison: BlockComparison) -> None:
        """Blocks are not written."""


build = ExplainStage
