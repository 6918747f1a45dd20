"""The stages of the library: those of `replay` and `batches`, which give results instead of lines."""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.derivation.config import DerivationConfig
from rollup_node.stages.derivation.pipeline.deriver import Output
from rollup_node.stages.derivation.pipeline.outputs import NeedReset
from rollup_node.stages.derivation.process.alt_da_client import InputMessage
from rollup_node.stages.derivation.process.derivation_log import drop_of
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import EXIT_REPORTED, ExitRequested
from rollup_node.stages.messages.blobs import BlobsResponse, BlobsUnavailable
from rollup_node.stages.messages.derivation import Drop
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.tools.api.blocks import Block, block_of
from rollup_node.tools.history.start_stage import RangeStartConfig, RangeStartStage
from rollup_node.tools.inspect.batch_summary import Batch, BatchSummary
from rollup_node.tools.inspect.listing_stage import ListingConfig, ListingStage
from rollup_node.tools.inspect.replay import BlockComparison, ReplayDerivationStage
from rollup_node.tools.inspect.replay_stage import NoProgress, RangeEnded

MAX_DROPS = 10_000
"""Drops that are kept until the next block; of more the oldest are counted only."""

Emit = Callable[[Block], Awaitable[None]]


class Outcome:
    """What the stages tell each other, and whoever runs them, within the process.

    The batch of the attributes that were derived last, what was dropped since, the rule of the reset that ends
    derivation, why L1 data are unavailable, the warnings, and why the run failed."""

    def __init__(self) -> None:
        self.batch: Batch | None = None
        self.reset_rule: str | None = None
        self.unavailable = ""
        self.warnings: list[str] = []
        self.failure: Exception | None = None
        self._drops: deque[Dropped] = deque(maxlen=MAX_DROPS)
        self._dropped = 0

    def drop(self, dropped: Dropped) -> None:
        """Note a drop."""
        self._drops.append(dropped)
        self._dropped += 1

    def take_drops(self) -> tuple[tuple[Drop, ...], int]:
        """Return the drops since the last call, and how many more there were."""
        omitted = self._dropped - len(self._drops)
        result = tuple(map(drop_of, self._drops))
        self._drops.clear()
        self._dropped = 0
        return result, omitted


class LibraryDerivationStage(ReplayDerivationStage):
    """That of `replay`; with `assume_parents` there is no L2 source."""

    def __init__(
        self, config: DerivationConfig, bus: Bus, meter: Meter, outcome: Outcome, assume_parents: bool
    ) -> None:
        super().__init__(config, bus, meter)
        self.deriver.assume_parents = assume_parents
        self._outcome = outcome

    def _on_blobs(self, message: BlobsResponse | BlobsUnavailable | InputMessage) -> None:
        self._outcome.unavailable = message.error if isinstance(message, BlobsUnavailable) else ""
        super()._on_blobs(message)

    def _handle(self, output: Output) -> bool:
        if isinstance(output, Dropped):
            self._outcome.drop(output)
        elif isinstance(output, AttributesReady):
            self._outcome.batch = self._sources.accepted
        elif isinstance(output, NeedReset):
            self._outcome.reset_rule = output.reason.kind.rule
        return super()._handle(output)


class LibraryEngineStage(RangeStartStage):
    """A replay that gives each block to `emit`, which waits until somebody wants it."""

    exhausted_timeout = 1.0

    def __init__(self, config: RangeStartConfig, bus: Bus, meter: Meter, outcome: Outcome, emit: Emit) -> None:
        super().__init__(config, bus, meter)
        self._outcome, self._emit = outcome, emit

    @property
    def _cause(self) -> str:
        return self._outcome.unavailable or super()._cause

    async def _write_block(self, comparison: BlockComparison) -> None:
        await self._emit(block_of(comparison, self._outcome.batch, *self._outcome.take_drops()))
        # The time in which nobody asked for a block is none without progress.
        self._patience.progress(time.monotonic())

    async def _write_failure(self, error: Exception) -> None:
        self._outcome.failure = error

    async def _warn(self, text: str) -> None:
        self._outcome.warnings.append(text)

    async def _write_line(self, text: str) -> None:
        """Write nothing: what is waited for is not said."""


class LibraryListingStage(ListingStage):
    """A listing that gives each batch to `emit`."""

    def __init__(
        self,
        config: ListingConfig,
        bus: Bus,
        meter: Meter,
        outcome: Outcome,
        emit: Callable[[BatchSummary], Awaitable[None]],
    ) -> None:
        super().__init__(config, bus, meter)
        self._outcome, self._emit = outcome, emit

    async def _write(self, batches: Sequence[BatchSummary], drops: Sequence[Dropped]) -> None:
        for dropped in drops:
            self._outcome.drop(dropped)
        for batch in batches:
            await self._emit(batch)
        self._patience.progress(time.monotonic())

    async def _finish(self) -> None:
        """Write nothing at the end."""

    async def _fail(self, text: str) -> NoReturn:
        kind = NoProgress if self._left_at is None else RangeEnded
        self._outcome.failure = kind(text)
        raise ExitRequested(EXIT_REPORTED)

    async def _notice(self, line: str) -> None:
        """Write nothing: what is waited for is not said."""
