"""The channel reader: results in parts, results that are not needed, and the keys of tasks."""

import pytest

from rollup_node.stages.derivation import tasks
from rollup_node.stages.derivation.codec.batches import SingularBatch
from rollup_node.stages.derivation.pipeline.channel_bank import ReadyChannel
from rollup_node.stages.derivation.pipeline.channel_reader import (
    ChannelBatches,
    ChannelReader,
    need_decoded,
    span_rules,
)
from rollup_node.stages.derivation.pipeline.ingestion import FrameIngestion
from rollup_node.stages.derivation.pipeline.l1_origins import L1Traversal
from rollup_node.stages.derivation.pipeline.outputs import Flow, NeedDecoded, PipelineEvents
from rollup_node.stages.derivation.reasons.channels import ChannelBehindSafeHead
from rollup_node.stages.derivation.tasks import DecodedChannel, run
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.tools.batcher.channels import Compression, channel_body
from tests.conformance.kit.chain import BATCHER, GENESIS, GENESIS_TIME, SYSTEM_CONFIG, L1Blocks, forks_until, rollup
from tests.conformance.kit.notation import channel_id
from tests.conformance.kit.planning import channel, plan, singulars

CONFIG = rollup(forks_until("granite"))
RULES = CONFIG.schedule().l1(GENESIS_TIME)
BODY = channel_body(singulars(plan(GENESIS, 7)), Compression.ZLIB)


def _reader() -> ChannelReader:
    reader = ChannelReader(span_rules(CONFIG), PipelineEvents())
    reader.open(ReadyChannel(channel_id("A"), BODY), RULES)
    return reader


def test_results_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MAX_BATCHES", 3)
    reader, needs, batches = _reader(), [], 0
    while (popped := reader.pop(RULES, GENESIS_TIME)) is not Flow.OUT_OF_DATA:
        if isinstance(popped, NeedDecoded):
            needs.append(popped.task.first)
            assert reader.add_decoded(popped.key, run(popped.task))
        else:
            assert isinstance(popped, SingularBatch)
            batches += 1
    assert (needs, batches) == ([0, 3, 6], 7)


def test_only_the_result_that_is_needed_is_taken() -> None:
    reader = _reader()
    need = reader.pop(RULES, GENESIS_TIME)
    assert isinstance(need, NeedDecoded)
    result = run(need.task)
    assert not reader.add_decoded(b"another key", result)
    assert not reader.add_decoded(need.key, DecodedChannel((), None)), "a part without batches"
    assert reader.add_decoded(need.key, result)
    assert not reader.add_decoded(need.key, result)
    reader.close()
    assert reader.channel is None
    assert not reader.add_decoded(need.key, result)


def test_keys_depend_on_bytes_and_rules() -> None:
    """[W7]"""
    rules = [L1Rules(), L1Rules(brotli=True), L1Rules(max_rlp_bytes_per_channel=1)]
    keys = {need_decoded(body, rule, span_rules(CONFIG)).key for body in (BODY, BODY[1:]) for rule in rules}
    assert len(keys) == 6
    assert need_decoded(BODY, RULES, span_rules(CONFIG)).key == need_decoded(BODY, RULES, span_rules(CONFIG)).key


HOLOCENE = rollup(forks_until("holocene"))
FIRST, SECOND = plan(GENESIS, 2)


class Batches:
    """The batches of an L1 block with these items."""

    def __init__(self, *items: bytes) -> None:
        block = L1Blocks().add(*items)
        self.events = PipelineEvents()
        traversal = L1Traversal(HOLOCENE.schedule(), self.events, block.ref, SYSTEM_CONFIG)
        ingestion = FrameIngestion(traversal.rules, self.events)
        reader = ChannelReader(span_rules(HOLOCENE), self.events)
        self.provider = ChannelBatches(traversal, ingestion, reader, self.events)
        self._reader = reader
        ingestion.source.open(block, BATCHER, traversal.rules)

    def next_time(self) -> int | None:
        """Return the time of the next batch; None when the block is exhausted."""
        while (batch := self.provider.next_batch()) is not Flow.OUT_OF_DATA:
            if isinstance(batch, NeedDecoded):
                assert self._reader.add_decoded(batch.key, run(batch.task))
            elif isinstance(batch, SingularBatch):
                return batch.timestamp
        return None


def test_discarded_channels_are_not_decoded() -> None:
    batches = Batches(*channel("A", FIRST.singular), *channel("B", SECOND.singular))
    assert batches.provider.discard_block() is None
    assert [drop.reason.kind for drop in batches.events.drops] == [ChannelBehindSafeHead] * 2
    assert batches.next_time() is None
