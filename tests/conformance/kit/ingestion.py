"""Harness for the stages from data items to complete channels, driven by L1 blocks."""

from rollup_node.stages.derivation.pipeline.alt_da import AltDaResolver
from rollup_node.stages.derivation.pipeline.channel_bank import ReadyChannel
from rollup_node.stages.derivation.pipeline.ingestion import FrameIngestion
from rollup_node.stages.derivation.pipeline.outputs import PipelineEvents
from rollup_node.stages.derivation.reasons.reason import AnyKind, Dropped
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.types import InboxTransaction
from tests.conformance.kit.chain import BATCHER, FIRST_L1, L1Blocks, rollup
from tests.conformance.kit.notation import item, parts


class IngestionHarness:
    """Reads L1 blocks one by one. Texts are notation of frames, one data item each."""

    def __init__(self, forks: dict[str, int], alt_da: AltDaResolver | None = None, **values: int) -> None:
        self.config: RollupConfig = rollup(forks, **values)
        self.l1 = L1Blocks()
        self.batcher = BATCHER
        self.dropped: list[Dropped] = []
        self._schedule = self.config.schedule()
        self._events = PipelineEvents()
        rules = self._schedule.l1(self.l1.last.header.timestamp)
        self.ingestion = FrameIngestion(rules, self._events, alt_da)

    def take_reasons(self) -> list[AnyKind]:
        """Return the reasons of what was dropped since the last call."""
        reasons, self.dropped = [entry.reason.kind for entry in self.dropped], []
        return reasons

    def channels(self, *items: str | bytes | InboxTransaction, number: int | None = None) -> list[ReadyChannel]:
        """Return the channels that come out of a new block with these items.

        `number` counts from the first block; blocks that are left out have no data."""
        if number is not None:
            while len(self.l1.blocks) < number:
                self.channels()
        block = self.l1.add(*(item(entry) if isinstance(entry, str) else entry for entry in items))
        rules = self._schedule.l1(block.header.timestamp)
        self.ingestion.source.open(block, self.batcher, rules)
        result = []
        while (channel := self.ingestion.next_channel(block.ref, rules)) is not None:
            assert isinstance(channel, ReadyChannel)
            result.append(channel)
        self.dropped.extend(self._events.drops)
        self._events.drops.clear()
        assert number is None or block.header.number == FIRST_L1 + number
        return result

    def read(self, *items: str | bytes | InboxTransaction, number: int | None = None) -> list[str]:
        """As `channels`, in the notation of their frames."""
        return [parts(channel.body) for channel in self.channels(*items, number=number)]
