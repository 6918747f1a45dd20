"""The task of decoding a channel: its messages travel, and results stay bounded."""

import zlib

import pytest

from rollup_node.stages.derivation import tasks
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.reasons.channels import StreamLimitExceeded
from rollup_node.stages.derivation.tasks import DecodeChannel, run
from tests.conformance.kit.streams import batch, compressed, stream

RULES = SpanRules(10, 0, 2)


def _body(count: int) -> bytes:
    return compressed([batch(number + 1) for number in range(count)])


def test_results_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MAX_RESULT_BYTES", 2000)
    result = run(DecodeChannel(_body(7), 10_000, True, RULES))
    assert (len(result.batches), result.end) == (3, None), "the one that exceeds the bound is the last"


@pytest.mark.fault("F27")
def test_a_bomb_stays_within_its_limit() -> None:
    bomb = zlib.compress(stream([batch(1)]) + b"\xba\xff\xff\xff" + bytes(20_000_000), 9)
    result = run(DecodeChannel(bomb, 1_000_000, True, RULES))
    assert len(result.batches) == 1
    assert result.end is not None and result.end.kind is StreamLimitExceeded
