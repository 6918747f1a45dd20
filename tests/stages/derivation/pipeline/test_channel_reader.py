"""The channel reader: results in parts, results that are not needed, and the keys of tasks."""

import pytest

from rollup_node.stages.derivation import tasks
from rollup_node.stages.derivation.codec.batches import SingularBatch
from rollup_node.stages.derivation.pipeline.channel_bank import ReadyChannel
from rollup_node.stages.derivation.pipeline.channel_reader import ChannelReader, need_decoded, span_rules
from rollup_node.stages.derivation.pipeline.events import PipelineEvents
from rollup_node.stages.derivation.pipeline.outputs import Flow, NeedDecoded
from rollup_node.stages.derivation.tasks import DecodedChannel, run
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.tools.batcher.channels import Compression, channel_body
from tests.conformance.kit.chain import GENESIS, GENESIS_TIME, forks_until, rollup
from tests.conformance.kit.notation import channel_id
from tests.conformance.kit.planning import plan, singulars

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
    keys = {need_decoded(body, each, span_rules(CONFIG)).key for body in (BODY, BODY[1:]) for each in rules}
    assert len(keys) == 6
    assert need_decoded(BODY, RULES, span_rules(CONFIG)).key == need_decoded(BODY, RULES, span_rules(CONFIG)).key
