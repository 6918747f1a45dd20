"""In the engine's place for `rollup-node explain`: derives as `replay` does, and writes down what was dropped and why
instead of the blocks."""

import time

import msgspec
import orjson

from rollup_node.ipc.bus.bus import Bus
from rollup_node.node.inspect.drops_client import DropsReader
from rollup_node.node.inspect.replay import Judged
from rollup_node.node.inspect.replay_stage import FAILURES, RESET, ReplayConfig, ReplayStage
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.io.output import write_text
from rollup_node.stages.io.task import EXIT_REPORTED, ExitRequested
from rollup_node.stages.messages.derivation import Drop

LAST_SECONDS = 5.0
STEP_SECONDS = 0.2


class ExplainConfig(msgspec.Struct, frozen=True):
    """A replay, and the L1 block after which it ends if its last L2 block has not come before."""

    replay: ReplayConfig
    last_l1: int | None


class ExplainStage(ReplayStage):
    """State: how the replay ended, once it has, and the question whose answer completes the drops up to then."""

    def __init__(self, config: ExplainConfig, bus: Bus, meter: Meter) -> None:
        super().__init__(config.replay, bus, meter)
        self._last_l1 = config.last_l1
        self._drops = DropsReader(bus, self._work.wake.set)
        self._end: Exception | None = None
        self._last_question = 0
        self._ends_by = 0.0

    async def _step(self) -> float:
        self._drops.keep_asking()
        await self._write_drops()
        if self._end is None:
            return await self._go_on()
        if self._drops.has_all_of(self._last_question):
            await self._write_drops()
            await self._conclude(self._end)
        if time.monotonic() > self._ends_by:
            await self._warn("derivation does not answer, later drops may be missing")
            await self._conclude(self._end)
        return STEP_SECONDS

    async def _go_on(self) -> float:
        try:
            if self._is_past_last_l1():
                raise ExitRequested()
            return min(STEP_SECONDS, await self._advance())
        except (*FAILURES, ExitRequested) as end:
            self._end, self._last_question = end, self._drops.ask()
            self._ends_by = time.monotonic() + LAST_SECONDS
            return STEP_SECONDS

    def _is_past_last_l1(self) -> bool:
        status, last = self._status, self._last_l1
        if last is None or status is None or status.current_l1 is None or status.reset != RESET:
            return False
        number = status.current_l1.number
        return number > last or (number == last and self._l1_used_up)

    async def _conclude(self, end: Exception) -> None:
        if self._drops.forgotten:
            await self._warn(f"{self._drops.forgotten} drops were forgotten before they were read")
        if isinstance(end, ExitRequested):
            raise end
        await self._fail(end)
        raise ExitRequested(EXIT_REPORTED)

    async def _write_drops(self) -> None:
        lines = [self._drop_line(drop) for drop in self._drops.take() if self._is_in_range(drop)]
        if lines:
            await write_text(self._config.output, "".join(lines))

    def _is_in_range(self, drop: Drop) -> bool:
        return self._last_l1 is None or drop.origin is None or drop.origin.number <= self._last_l1

    def _drop_line(self, drop: Drop) -> str:
        if self._config.as_json:
            return orjson.dumps(drop.shown()).decode() + "\n"
        return f"L1 {drop.origin.number if drop.origin is not None else 'unknown'}  {drop.text}\n"

    async def _tell(self, judged: Judged) -> None:
        """Blocks are not written."""


def build(config: ExplainConfig, bus: Bus, meter: Meter) -> ExplainStage:
    """The stage for the runtime."""
    return ExplainStage(config, bus, meter)
