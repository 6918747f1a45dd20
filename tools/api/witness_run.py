"""The run of `derive` over a witness: no endpoint is asked, no socket is opened."""

import asyncio
from pathlib import Path

from rollup_node.stages.messages.derivation import Drop
from rollup_node.tools.api.blocks import Block, block_of
from rollup_node.tools.api.chains import Chain
from rollup_node.tools.api.errors import BlockDiffers, DataError, RangeError
from rollup_node.tools.api.stages import Emit, Outcome
from rollup_node.tools.inspect.channel_sources import BlockSources
from rollup_node.tools.inspect.replay_stage import ReplayFailed
from rollup_node.tools.witness.preimages import WitnessError
from rollup_node.tools.witness.reader import WitnessReader, derive_witness


class WitnessRun:
    """Derives the range of a witness, or its beginning up to block `last`.

    Raises DataError at once for a folder that is no witness of the chain, and RangeError for another range."""

    def __init__(self, folder: str, chain: Chain, first: int | None, last: int | None) -> None:
        self._folder = folder
        try:
            self._reader = WitnessReader(Path(folder))
        except WitnessError as error:
            raise self._error(error) from None
        manifest, l2_chain_id = self._reader.manifest, self._reader.config.l2_chain_id
        if l2_chain_id != chain.l2_chain_id:
            raise DataError(f"witness {folder}: it is of L2 chain {l2_chain_id}, not {chain.l2_chain_id}")
        self.first = manifest.safe_head.number
        self.last = manifest.last if last is None else last
        if first not in (None, self.first) or not self.first < self.last <= manifest.last:
            raise RangeError(f"witness {folder}: it is of the blocks after {self.first} up to {manifest.last}")
        self.last_drops: tuple[Drop, ...] = ()
        self.warnings: tuple[str, ...] = ()

    async def main(self, emit: Emit) -> None:
        """Derive, and give each block to `emit`. Raises WitnessError, and ReplayFailed after one that differs."""
        outcome, sources = Outcome(), BlockSources(self._reader.config)
        for comparison in derive_witness(self._reader, sources, outcome.drop):
            block = block_of(comparison, sources.accepted, *outcome.take_drops())
            await emit(block)
            if block.differences:
                raise ReplayFailed(f"block {block.number} differs from the witness in {block.differences[0]}")
            if block.number == self.last:
                break
            # It may be cancelled here alone.
            await asyncio.sleep(0)
        self.last_drops, _ = outcome.take_drops()

    def error_of(self, error: BaseException, last: Block | None) -> BaseException:
        """Return the error of the API for what ended `main` after the block `last`; a bug stays what it is."""
        if isinstance(error, ReplayFailed) and last is not None:
            return BlockDiffers(str(error), last)
        return self._error(error) if isinstance(error, WitnessError) else error

    def _error(self, error: WitnessError) -> DataError:
        return DataError(f"witness {self._folder}: {error}", rule="WIT7")
