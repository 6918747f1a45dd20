"""Batches of the channels in an L1 block: pulled one by one, or discarded without decoding."""

from rollup_node.stages.derivation.codec.batches import SingularBatch
from rollup_node.stages.derivation.pipeline.channel_batches import ChannelBatches
from rollup_node.stages.derivation.pipeline.channel_reader import ChannelReader, span_rules
from rollup_node.stages.derivation.pipeline.events import PipelineEvents
from rollup_node.stages.derivation.pipeline.ingestion import FrameIngestion
from rollup_node.stages.derivation.pipeline.l1_traversal import L1Traversal
from rollup_node.stages.derivation.pipeline.outputs import Flow, NeedDecoded
from rollup_node.stages.derivation.reasons.reading import ChannelBehindSafeHead
from rollup_node.stages.derivation.tasks import run
from tests.conformance.kit.chain import BATCHER, GENESIS, SYSTEM_CONFIG, L1Blocks, forks_until, rollup
from tests.conformance.kit.planning import channel, child, plan

CONFIG = rollup(forks_until("holocene"))
FIRST, SECOND = plan(GENESIS, 2)


class Batches:
    """The batches of an L1 block with these items."""

    def __init__(self, *items: bytes) -> None:
        block = L1Blocks().add(*items)
        self.events = PipelineEvents()
        traversal = L1Traversal(CONFIG.schedule(), self.events, block.ref, SYSTEM_CONFIG)
        ingestion = FrameIngestion(traversal.rules, self.events)
        reader = ChannelReader(span_rules(CONFIG), self.events)
        self.provider = ChannelBatches(traversal, ingestion, reader, self.events)
        self._reader = reader
        ingestion.open(block, BATCHER, traversal.rules)

    def next_time(self) -> int | None:
        """The time of the next batch; None when the block is exhausted."""
        while (found := self.provider.next_batch()) is not Flow.OUT_OF_DATA:
            if isinstance(found, NeedDecoded):
                assert self._reader.add_decoded(found.key, run(found.task))
            elif isinstance(found, SingularBatch):
                return found.timestamp
        return None


def test_batches_of_all_channels_in_order() -> None:
    batches = Batches(*channel("A", FIRST.singular), *channel("B", SECOND.singular))
    assert [batches.next_time() for _ in range(3)] == [FIRST.ref.timestamp, SECOND.ref.timestamp, None]


def test_a_flush_goes_on_with_the_next_channel() -> None:
    batches = Batches(*channel("A", FIRST.singular, SECOND.singular), *channel("B", child(SECOND.ref).singular))
    assert batches.next_time() == FIRST.ref.timestamp
    batches.provider.flush_channel()
    assert [batches.next_time(), batches.next_time()] == [SECOND.ref.timestamp + 2, None]


def test_discarded_channels_are_not_decoded() -> None:
    batches = Batches(*channel("A", FIRST.singular), *channel("B", SECOND.singular))
    assert batches.provider.discard_block() is None
    assert [type(each.reason) for each in batches.events.drops] == [ChannelBehindSafeHead] * 2
    assert batches.next_time() is None
