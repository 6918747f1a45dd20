"""The queue of unsafe blocks, rule by rule [UNS1 to UNS5], and against a plain model."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.engine.api.heads import Heads
from rollup_node.stages.engine.machines.unsafe_queue import MAX_BYTES, MAX_HEAD_AGE, UnsafeQueue, size_of
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, L2BlockRef

ORIGIN = BlockId(1, b"\x01" * 32)


def block_hash(number: int, branch: int = 0) -> bytes:
    return (number % (1 << 64)).to_bytes(8, "big") + branch.to_bytes(24, "big")


def block(number: int, branch: int = 0, parent_branch: int | None = None, transactions: Any = ()) -> ExecutionPayload:
    parent = branch if parent_branch is None else parent_branch
    return ExecutionPayload(
        parent_hash=block_hash(number - 1, parent),
        fee_recipient=bytes(20),
        state_root=bytes(32),
        receipts_root=bytes(32),
        logs_bloom=bytes(256),
        prev_randao=bytes(32),
        block_number=number,
        gas_limit=1,
        gas_used=0,
        timestamp=2 * number,
        extra_data=b"",
        base_fee=1,
        block_hash=block_hash(number, branch),
        transactions=tuple(transactions),
        withdrawals=True,
        blob_gas_used=None,
        excess_blob_gas=None,
        withdrawals_root=None,
        parent_beacon_root=None,
    )


def ref(number: int, branch: int = 0) -> L2BlockRef:
    return L2BlockRef(block_hash(number, branch), number, block_hash(number - 1, branch), 2 * number, ORIGIN, 0)


def heads(unsafe: int, safe: int = 0, branch: int = 0) -> Heads:
    return Heads(ref(unsafe, branch), ref(safe), ref(safe), ref(0))


def queue_of(*payloads: ExecutionPayload, most: int = MAX_BYTES) -> UnsafeQueue:
    queue = UnsafeQueue(most)
    for payload in payloads:
        queue.add(payload)
    return queue


def test_blocks_are_counted_with_their_transactions() -> None:
    assert size_of(block(1)) == 1000
    assert size_of(block(1, transactions=(b"abc", b""))) == 1000 + 3 + 2 * 24
    queue = queue_of(block(1, transactions=(b"abc",)), block(2))
    assert (len(queue), queue.bytes) == (2, 2027)
    queue.next(heads(5))
    assert (len(queue), queue.bytes) == (0, 0)


def test_beyond_the_bound_the_lowest_numbers_go_first() -> None:
    queue = queue_of(block(7), block(5), block(6), most=3000)
    assert queue.add(block(9))
    assert queue.lowest == block(6) and queue.bytes == 3000
    assert not queue.add(block(2)), "the lowest is the new one itself"
    assert not queue.add(block(4, transactions=(bytes(5000),)))
    assert len(queue) < 4 and queue.bytes <= 3000
    assert MAX_BYTES == 500 * 1024 * 1024


def test_the_same_hash_is_not_queued_twice_but_several_blocks_of_a_height_are() -> None:
    queue = queue_of(block(3))
    assert not queue.add(block(3))
    assert queue.add(block(3, branch=1)) and len(queue) == 2
    queue.drop(block(3).block_hash)
    assert queue.add(block(3))


def test_the_block_after_the_head_is_next_and_stays_until_the_head_moves() -> None:
    queue = queue_of(block(4), block(3))
    assert queue.next(heads(2)) == block(3)
    assert queue.next(heads(2)) == block(3) and len(queue) == 2
    assert queue.next(heads(3)) == block(4) and len(queue) == 1
    assert queue.next(heads(4)) is None and len(queue) == 0


@pytest.mark.parametrize(
    ("payload", "at"),
    [
        (block(3), heads(3)),
        (block(3, branch=9), heads(3)),
        (block(2), heads(3)),
        (block(2), heads(3, safe=2)),
        (block(4, branch=9), heads(3)),
        (block(4, branch=0, parent_branch=9), heads(3)),
    ],
    ids=["the head itself", "a sibling of the head", "below the head", "safe", "another chain", "wrong parent"],
)
def test_what_the_heads_rule_out_is_dropped(payload: ExecutionPayload, at: Heads) -> None:
    queue = queue_of(payload, block(5))
    assert queue.next(at) is None
    assert queue.lowest == block(5)


def test_a_sibling_that_fits_follows_one_that_does_not() -> None:
    queue = queue_of(block(4, branch=9), block(4))
    assert queue.next(heads(3)) == block(4)


def test_a_block_after_a_gap_waits() -> None:
    queue = queue_of(block(9))
    assert queue.next(heads(3)) is None and len(queue) == 1


def test_any_block_can_be_dropped() -> None:
    queue = queue_of(block(4), block(5), block(7), block(6))
    assert queue.highest == block(7)
    for number, lowest, highest in ((7, 4, 6), (4, 5, 6), (9, 5, 6)):
        queue.drop(block(number).block_hash)
        assert (queue.lowest, queue.highest) == (block(lowest), block(highest))
    assert len(queue) == 2 and queue.bytes == size_of(block(5)) + size_of(block(6))
    assert UnsafeQueue().highest is None


def test_blocks_below_a_number_are_dropped_together() -> None:
    queue = queue_of(block(4), block(7), block(5), block(6))
    queue.drop_below(6)
    assert len(queue) == 2 and queue.lowest == block(6)
    queue.drop_below(9)
    assert len(queue) == 0 and queue.bytes == 0


@pytest.mark.fault("F48")
def test_a_gap_ends_at_the_lowest_block() -> None:
    queue = UnsafeQueue()
    assert queue.gap_end(heads(3), 6) is None
    queue.add(block(4))
    assert queue.gap_end(heads(3), 6) is None
    queue.drop(block(4).block_hash)
    queue.add(block(9))
    queue.add(block(7))
    assert queue.gap_end(heads(3), 6) == block(7)


def test_no_gap_after_a_head_of_half_a_day_ago() -> None:
    queue = queue_of(block(9))
    stamp = heads(3).unsafe.timestamp
    assert queue.gap_end(heads(3), stamp + MAX_HEAD_AGE) == block(9)
    assert queue.gap_end(heads(3), stamp + MAX_HEAD_AGE + 1) is None


STEP = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 12), st.integers(0, 2), st.integers(0, 2), st.integers(0, 900)),
    st.tuples(st.just("next"), st.integers(0, 12), st.integers(0, 2), st.integers(0, 12), st.just(0)),
    st.tuples(st.just("drop"), st.integers(0, 12), st.integers(0, 2), st.just(0), st.just(0)),
)


@settings(max_examples=100)
@given(st.lists(STEP, max_size=25))
def test_it_behaves_like_a_sorted_list(steps: list[tuple[str, int, int, int, int]]) -> None:
    """The model keeps blocks in a list and applies the rules one by one."""
    queue = UnsafeQueue(3000)
    model: list[ExecutionPayload] = []
    for what, number, branch, other, size in steps:
        if what == "add":
            payload = block(number + 1, branch, other, (bytes(size),))
            fresh = all(each.block_hash != payload.block_hash for each in model)
            if fresh:
                model.append(payload)
                model.sort(key=lambda each: each.block_number)
                while sum(map(size_of, model)) > 3000:
                    del model[0]
            assert queue.add(payload) == (fresh and payload in model)
        elif what == "drop":
            payload = block(number + 1, branch)
            model = [each for each in model if each.block_hash != payload.block_hash]
            queue.drop(payload.block_hash)
        else:
            at = msgspec.structs.replace(heads(number, branch=branch), safe=ref(min(other, number)))
            expected = None
            while model:
                lowest = model[0]
                if lowest.block_number > number + 1:
                    break
                if lowest.block_number == number + 1 and lowest.parent_hash == at.unsafe.hash:
                    expected = lowest
                    break
                del model[0]
            assert queue.next(at) == expected
        assert queue.lowest == (model[0] if model else None)
        assert len(queue) == len(model) and queue.bytes == sum(map(size_of, model)) <= 3000
