"""The derivation process of a range without an L2 source.

Lists the batches of L1 blocks, and writes the rows of what it reads. Nothing is checked against L2, so that there are
no verdicts."""

import sys
from pathlib import Path

import msgspec

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import EXIT_REPORTED, ExitRequested
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import L1Block
from rollup_node.tools.history.derivation_stage import RESULT, RangeResult
from rollup_node.tools.history.manifest import NO_BLOCK, Block, L1Range, State, digest_of
from rollup_node.tools.history.recorder import HistoryEvents, open_channel
from rollup_node.tools.history.tables import RowFiles
from rollup_node.tools.inspect.batch_summary import BatchSummary
from rollup_node.tools.inspect.listing_stage import BatchListing, ListingConfig, ListingStage


class ReadingConfig(msgspec.Struct, frozen=True):
    """Lists the blocks of `listing`, and writes the rows of L1 blocks `first` to its last one below `folder`.

    At least one block before `first` is listed."""

    listing: ListingConfig
    first: int
    folder: str


class ReadingStage(ListingStage):
    """State, beside that of the listing: the rows, and the state in which the range began."""

    def __init__(self, config: ReadingConfig, bus: Bus, meter: Meter) -> None:
        super().__init__(config.listing, bus, meter)
        self._range, self._folder = L1Range(config.first, config.listing.last), Path(config.folder)
        self._files = RowFiles(self._folder)
        self._begun: State | None = None

    async def _step(self) -> float:
        try:
            return await super()._step()
        except OSError as error:
            print(f"rollup-node: cannot write the rows of L1 blocks {self._range}: {error.strerror}", file=sys.stderr)
            raise ExitRequested(EXIT_REPORTED) from None

    def _new_listing(self, block: L1Block) -> BatchListing:
        rollup = self._config.rollup
        return BatchListing(rollup, block, events=HistoryEvents(rollup, self._range, self._files.add))

    def _read_next(self) -> list[BatchSummary] | None:
        if self._next == self._range.first and self._begun is None:
            self._begun = self._state()
        batches = super()._read_next()
        # Drops are rows of a table.
        self._drops.clear()
        return None if batches is None else []

    async def _finish(self) -> None:
        assert self._begun is not None and self._listing is not None
        self._files.close()
        result = RangeResult(self._begun, self._state(), 0, self._files.counts, to_hex(self._listing.batcher))
        (self._folder / RESULT).write_bytes(msgspec.json.encode(result))

    def _state(self) -> State:
        """Return the state of reading after the last block that was read.

        Channels that are timed out are left out: whether the bank still has them depends on where reading began."""
        listing = self._listing
        assert listing is not None
        origin = listing.origin
        channels = (open_channel(live_channel) for live_channel in listing.live_channels)
        return State(
            Block(origin.number, to_hex(origin.hash)), NO_BLOCK, NO_BLOCK, digest_of(listing.batcher), tuple(channels)
        )


build = ReadingStage
