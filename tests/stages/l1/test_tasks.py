"""The verify tasks as compute workers run them, over the codec."""

from collections.abc import Callable
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.ipc.wire.codec import Codec
from rollup_node.stages.l1.filter import Filter
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

Json = Callable[[int], Any]
Answer = Callable[[Any], bytes]
RULES = Filter(1, bytes(20), bytes(20), bytes(20))


def over_the_bus(task: Task) -> Result:
    tasks, results = Codec(Task), Codec(Result)
    result: Result = results.decode(results.encode(run(tasks.decode(tasks.encode(task)))))
    return result


def test_a_block_whose_bloom_excludes_events_needs_no_receipts(block_json: Json, answer: Answer, rules: Filter) -> None:
    result = over_the_bus(VerifyBlock(6_582_951, answer(block_json(6_582_951)), False, rules))
    assert isinstance(result, Verified)
    assert result.block.deposits == result.block.config_updates == ()
    assert result.block.header.number == 6_582_951


def test_a_block_with_a_deposit(block_json: Json, receipts_json: Json, answer: Answer, rules: Filter) -> None:
    first = over_the_bus(VerifyBlock(6_582_952, answer(block_json(6_582_952)), False, rules))
    assert isinstance(first, NeedsReceipts)
    second = over_the_bus(VerifyReceipts(first.block, answer(receipts_json(6_582_952)), rules))
    assert isinstance(second, Verified)
    assert [log.index for log in second.block.deposits] == [56]
    assert len(second.block.inbox) == 1
    assert second.block.header.hash == first.block.header.hash


def test_bad_answers_are_results(block_json: Json, answer: Answer, rules: Filter) -> None:
    first = run(VerifyBlock(6_582_952, answer(block_json(6_582_952)), False, rules))
    assert isinstance(first, NeedsReceipts)
    for task in (
        VerifyBlock(1, b"<html>", False, rules),
        VerifyBlock(1, answer(None), False, rules),
        VerifyBlock(1, orjson.dumps({"error": {"code": -32000, "message": "x" * 5000}}), False, rules),
        VerifyReceipts(first.block, b"", rules),
        VerifyReceipts(first.block, answer(None), rules),
    ):
        result = over_the_bus(task)
        assert isinstance(result, Invalid)
        assert 0 < len(result.reason) < 400


@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_raise(body: bytes, trust: bool) -> None:
    assert isinstance(run(VerifyBlock(1, body, trust, RULES)), Invalid)
