"""The tasks of l1 as compute workers run them, over the codec."""

from collections.abc import Callable
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.ipc.wire.codec import Codec
from rollup_node.stages.l1.filter import L1Filter
from rollup_node.stages.l1.tasks import (
    Invalid,
    NeedsReceipts,
    Result,
    Task,
    Verified,
    VerifyBlock,
    VerifyReceipts,
    run,
)

JsonByNumber = Callable[[int], Any]
ResponseBody = Callable[[Any], bytes]
L1_FILTER = L1Filter(1, bytes(20), bytes(20), bytes(20))


def run_over_the_codec(task: Task) -> Result:
    tasks, results = Codec(Task), Codec(Result)
    result: Result = results.decode(results.encode(run(tasks.decode(tasks.encode(task)))))
    return result


def test_a_block_whose_bloom_excludes_events_needs_no_receipts(
    block_json: JsonByNumber, response_body: ResponseBody, l1_filter: L1Filter
) -> None:
    result = run_over_the_codec(VerifyBlock(6_582_951, response_body(block_json(6_582_951)), False, l1_filter))
    assert isinstance(result, Verified)
    assert result.block.deposits == result.block.config_updates == ()
    assert result.block.header.number == 6_582_951


def test_a_block_with_a_deposit(
    block_json: JsonByNumber, receipts_json: JsonByNumber, response_body: ResponseBody, l1_filter: L1Filter
) -> None:
    first = run_over_the_codec(VerifyBlock(6_582_952, response_body(block_json(6_582_952)), False, l1_filter))
    assert isinstance(first, NeedsReceipts)
    second = run_over_the_codec(VerifyReceipts(first.block, response_body(receipts_json(6_582_952)), l1_filter))
    assert isinstance(second, Verified)
    assert [log.index for log in second.block.deposits] == [56]
    assert len(second.block.inbox) == 1
    assert second.block.header.hash == first.block.header.hash


def test_invalid_responses_are_results(
    block_json: JsonByNumber, response_body: ResponseBody, l1_filter: L1Filter
) -> None:
    first = run(VerifyBlock(6_582_952, response_body(block_json(6_582_952)), False, l1_filter))
    assert isinstance(first, NeedsReceipts)
    for task in (
        VerifyBlock(1, b"<html>", False, l1_filter),
        VerifyBlock(1, response_body(None), False, l1_filter),
        VerifyBlock(1, orjson.dumps({"error": {"code": -32000, "message": "x" * 5000}}), False, l1_filter),
        VerifyReceipts(first.block, b"", l1_filter),
        VerifyReceipts(first.block, response_body(None), l1_filter),
    ):
        result = run_over_the_codec(task)
        assert isinstance(result, Invalid)
        assert 0 < len(result.reason) < 400


@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_raise(body: bytes, trust: bool) -> None:
    assert isinstance(run(VerifyBlock(1, body, trust, L1_FILTER)), Invalid)
