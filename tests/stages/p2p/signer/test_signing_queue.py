"""The blocks that wait for their signature: the newest first, few, not too old [SGN8]."""

from rollup_node.stages.p2p.signer.signing_queue import MAX_BACKOFF, MAX_WAITING, MIN_BACKOFF, SigningQueue
from rollup_node.stages.protocol.payloads import ExecutionPayload
from tests.support.p2p.blocks import BLOCK_TIME, GENESIS_TIME, block, chain

MAX_AGE = 60.0
BLOCKS = chain(MAX_WAITING + 4)


def ignore(_: str | None) -> None:
    pass


def queue_of(*payloads: ExecutionPayload) -> SigningQueue:
    queue = SigningQueue(MAX_AGE)
    for payload in payloads:
        queue.add(payload, ignore)
    return queue


def next_number(queue: SigningQueue, now: float) -> int | None:
    result = queue.next(now)
    return None if result is None else result.payload.block_number


def test_a_failure_delays_the_block_and_not_a_newer_one() -> None:
    queue = queue_of(BLOCKS[0])
    now = 100.0
    for failures in range(8):
        assert next_number(queue, now) == 1
        queue.failed(now)
        pause = min(MAX_BACKOFF, MIN_BACKOFF * 2**failures)
        assert queue.delay(now) == pause and next_number(queue, now + 0.9 * pause) is None
        now += pause
    queue.failed(now)
    queue.add(BLOCKS[1], ignore)
    assert queue.delay(now) == 0.0 and next_number(queue, now) == 2
    assert next_number(queue, now) is None, "tried once, then it waits as well"
    queue.succeeded()
    assert queue.delay(now) == 0.0


def test_the_oldest_makes_room() -> None:
    queue = queue_of(*BLOCKS[:MAX_WAITING])
    ((dropped, reason),) = queue.add(BLOCKS[MAX_WAITING], ignore)
    assert dropped.payload == BLOCKS[0] and reason == "too many newer blocks wait for the signer"
    assert len(queue) == MAX_WAITING


def test_a_block_of_the_same_height_or_below_replaces_what_waits() -> None:
    queue = queue_of(*BLOCKS[:4])
    other = block(number=3, gas_used=5)
    dropped = queue.add(other, ignore)
    assert [item.payload.block_number for item, _ in dropped] == [3, 4]
    assert {reason for _, reason in dropped} == {"another block took its height before it was signed"}
    assert len(queue) == 3 and next_number(queue, 0.0) == 3


def test_an_older_block_that_comes_later_drops_no_descendant() -> None:
    """The request for block 2 was lost and repeated."""
    queue = queue_of(BLOCKS[0], BLOCKS[2], BLOCKS[3])
    assert queue.add(BLOCKS[1], ignore) == [] and next_number(queue, 0.0) == 4
    queue = queue_of(BLOCKS[2], BLOCKS[3])
    assert queue.add(BLOCKS[0], ignore) == [], "what is above a gap may descend from it"


def test_a_block_that_was_dropped_and_added_again_is_another_one() -> None:
    queue = queue_of(BLOCKS[0])
    first = queue.next(0.0)
    assert first is not None and queue.holds(first)
    queue.remove(first)
    queue.add(BLOCKS[0], ignore)
    assert not queue.holds(first) and queue.remove(first) is first and len(queue) == 1


def test_blocks_that_peers_reject_for_their_age_are_dropped() -> None:
    queue = queue_of(*BLOCKS[:3])
    oldest = GENESIS_TIME + BLOCK_TIME
    assert queue.drop_old(oldest + MAX_AGE + 0.9) == []
    ((dropped, reason),) = queue.drop_old(oldest + MAX_AGE + 1)
    assert dropped.payload == BLOCKS[0] and reason == "too_old: peers accept blocks of the last 60 s only"
    assert len(queue) == 2
