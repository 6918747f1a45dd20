"""The derivation process of a range: the node's own, which writes the rows of what it reads."""

import sys
from pathlib import Path

import msgspec

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.derivation.config import DerivationConfig
from rollup_node.stages.derivation.pipeline.deriver import Deriver, Output
from rollup_node.stages.derivation.process.stage import DerivationStage
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import EXIT_REPORTED, ExitRequested
from rollup_node.stages.messages.engine import AttributesReady, AttributesResult
from rollup_node.stages.protocol.config import SystemConfig
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.types import L2BlockContent
from rollup_node.tools.history.l1_view import RecentBlocks, read_blocks
from rollup_node.tools.history.manifest import L1Range, Resume, State
from rollup_node.tools.history.recorder import HistoryEvents, state_of
from rollup_node.tools.history.tables import RowFiles

RESULT = "range.json"
"""The file that says that all rows are written."""
OVERLAP = "overlap.msgpack"
"""The file with the last blocks, without an L2 source."""


class RangeResult(msgspec.Struct, frozen=True):
    """What was derived of a range.

    The states at its ends, the rows of each file, and without an L2 source the batcher at the end, in hex, or where
    derivation continues."""

    start: State
    end: State
    l2_blocks: int
    rows: dict[str, int]
    batcher: str | None = None
    resume: Resume | None = None


class RangeConfig(msgspec.Struct, frozen=True):
    """Writes the rows of L1 blocks `first` to `last` into files below `folder`.

    With `assume_parents` there is no L2 source: the parents of batches are those that they claim, and `overlap` is
    the file with the last blocks of the range before, None at genesis."""

    derivation: DerivationConfig
    first: int
    last: int
    folder: str
    assume_parents: bool = False
    overlap: str | None = None


class RangeDerivationStage(DerivationStage):
    """State, beside that of derivation.

    The rows, the state in which the range began, the attributes that the engine process is to answer, and by L1 block
    the system configs that came into force."""

    def __init__(self, config: RangeConfig, bus: Bus, meter: Meter) -> None:
        derivation = config.derivation
        super().__init__(derivation, bus, meter)
        self._range, self._folder = L1Range(config.first, config.last), Path(config.folder)
        self._files = RowFiles(self._folder)
        self._events = HistoryEvents(derivation.rollup, self._range, self._files.add)
        self.deriver = Deriver(
            derivation.rollup,
            derivation.l1_chain,
            span_overlap_check=derivation.span_overlap_check,
            events=self._events,
            assume_parents=config.assume_parents,
        )
        self._rollup, self._assume_parents = derivation.rollup, config.assume_parents
        self._recent = RecentBlocks() if config.overlap is None else read_blocks(Path(config.overlap))
        self._configs: list[tuple[int, SystemConfig]] = []
        self._begun: State | None = None
        self._ended: State | None = None
        self._attributes: PayloadAttributes | None = None

    async def _step(self) -> float:
        try:
            wait = await super()._step()
            if self._ended is None or self._begun is None:
                return wait
            self._files.close()
            resume = None
            if self._assume_parents:
                resume = self._resume()
                self._recent.write(self._folder / OVERLAP)
            result = RangeResult(self._begun, self._ended, self._events.l2_blocks, self._files.counts, resume=resume)
            (self._folder / RESULT).write_bytes(msgspec.json.encode(result))
        except OSError as error:
            print(f"rollup-node: cannot write the rows of L1 blocks {self._range}: {error.strerror}", file=sys.stderr)
            raise ExitRequested(EXIT_REPORTED) from None
        raise ExitRequested()

    def _handle(self, output: Output) -> bool:
        if isinstance(output, AttributesReady):
            self._attributes = output.attributes
        return super()._handle(output)

    def _take_answer(self, answer: AttributesResult) -> None:
        super()._take_answer(answer)
        if self._attributes is not None:
            self._events.block_derived(answer.safe_head, answer.derived_from, self._attributes)
            if self._assume_parents:
                self._recent.add(L2BlockContent(answer.safe_head, self._attributes.transactions))

    def _add_l1_block(self, number: int) -> bool:
        """Read no block behind the range: when that is needed, all blocks of the range are exhausted."""
        origin, config = self.deriver.origin, self.deriver.origin_config
        if origin is not None and config is not None and (not self._configs or self._configs[-1][1] != config):
            self._configs.append((origin.number, config))
        if number == self._range.first and self._begun is None:
            self._begun = self._state()
        if number > self._range.last:
            self._events.block_read()
            self._ended = self._state()
            return False
        return super()._add_l1_block(number)

    def _state(self) -> State | None:
        origin, config = self.deriver.origin, self.deriver.origin_config
        if origin is None or config is None or self._safe is None:
            return None
        safe, safe_config = self._safe
        return state_of(origin, config.batcher, safe, safe_config, self.deriver.open_channels)

    def _resume(self) -> Resume:
        """Return a channel timeout before the origin of the safe head, but not before this range's own base."""
        assert self._safe is not None
        safe, config = self._safe
        timeout = self._rollup.schedule().l1(safe.timestamp).channel_timeout
        base = max(self._configs[0][0], safe.l1_origin.number - timeout)
        base_config = next(item for number, item in reversed(self._configs) if number <= base)
        return Resume(safe, config, base, base_config)


build = RangeDerivationStage
