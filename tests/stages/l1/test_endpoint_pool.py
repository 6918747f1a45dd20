"""Which L1 endpoint is in use."""

from rollup_node.stages.l1.endpoint_pool import (
    MAX_RETRY_AFTER,
    EndpointFault,
    EndpointPool,
    View,
    compare,
    lower_number,
)
from rollup_node.stages.protocol.types import L1BlockRef


def test_the_first_that_is_not_set_aside_is_in_use() -> None:
    pool = EndpointPool(3)
    assert pool.pick(0.0) == 0
    assert pool.set_aside(0, EndpointFault.UNREACHABLE, "refused", 0.0)
    assert pool.pick(0.0) == 1 and pool.pick(1e9) == 1, "the end of a pause does not put it back"
    assert pool.to_probe(1.9) == [] and pool.next_probe(0.5) == 1.5
    assert pool.to_probe(2.0) == [0]
    pool.restore(0)
    assert pool.pick(2.0) == 0 and pool.next_probe(2.0) is None


def test_pauses_double_and_begin_again() -> None:
    pool, now, pauses = EndpointPool(1), 0.0, []
    for _ in range(8):
        assert pool.set_aside(0, EndpointFault.BEHIND, "is behind", now)
        pauses.append(pool.next_probe(now))
        now += pauses[-1] or 0.0
    assert pauses == [5, 10, 20, 40, 60, 60, 60, 60]
    pool.restore(0)
    assert pool.set_aside(0, EndpointFault.BEHIND, "is behind", now + 60 * 10)
    assert pool.next_probe(now + 60 * 10) == 5


def test_what_fails_with_an_endpoint_that_is_set_aside_adds_nothing() -> None:
    """Ten requests in flight fail at once."""
    pool = EndpointPool(2)
    assert pool.set_aside(0, EndpointFault.UNREACHABLE, "refused", 0.0)
    assert not any(pool.set_aside(0, EndpointFault.FAILING, "refused", 0.1) for _ in range(9))
    assert pool.next_probe(0.0) == 2
    assert pool.set_aside(0, EndpointFault.WRONG_DATA, "a root differs", 0.2), "that is worse"
    verdict = pool.verdicts[0]
    assert verdict is not None and (verdict.fault, verdict.until) == (EndpointFault.WRONG_DATA, 30.2)
    assert not pool.set_aside(0, EndpointFault.UNREACHABLE, "refused", 1.0)


def test_the_retry_after_of_a_server_is_kept_within_a_bound() -> None:
    pool = EndpointPool(1)
    assert pool.set_aside(0, EndpointFault.THROTTLED, "429", 0.0, retry_after=20.0)
    assert pool.pick(19.9) is None and pool.pick(20.0) == 0
    assert pool.set_aside(0, EndpointFault.THROTTLED, "429", 20.0, retry_after=3000.0)
    assert pool.next_probe(20.0) == MAX_RETRY_AFTER


def test_one_is_used_where_all_are_set_aside_unless_they_throttle() -> None:
    pool = EndpointPool(3)
    assert pool.set_aside(0, EndpointFault.OTHER_CHAIN, "is on chain 1", 0.0)
    assert pool.set_aside(1, EndpointFault.FAILING, "boom", 0.0)
    assert pool.set_aside(2, EndpointFault.THROTTLED, "429", 0.0)
    assert pool.pick(0.0) == 1
    assert pool.pick(1.0) == 2, "its pause ends first"


NOW = 10_000


def view(block: int | None, age: int = 0, number: int = 103) -> View:
    """Of an endpoint whose head has that age, with a hash of block 100 that ends with `block`."""
    head = L1BlockRef(bytes(32), number, bytes(32), NOW - age)
    return View(head, None if block is None else block.to_bytes(32, "big"))


def test_a_head_from_the_future_makes_nobody_seem_behind() -> None:
    assert compare(100, {0: view(1), 1: view(1, age=-100_000)}, NOW) == ({}, None)


def test_recent_heads_below_the_block_are_compared() -> None:
    assert lower_number({0: view(1), 1: view(None, 60, 99), 2: view(None, 61, 90), 3: view(None, 0, 98)}, NOW) == 98
    assert lower_number({0: view(1, -60), 1: view(None, 61, 99)}, NOW) is None
    assert lower_number({0: view(1), 1: View(None, None)}, NOW) is None


def test_the_proven_block_is_right_whatever_the_majority_says() -> None:
    """[LCP15]"""
    proven = view(1).block
    findings, disagreement = compare(100, {0: view(2), 1: view(1), 2: view(2), 3: view(3)}, NOW, proven)
    assert set(findings) == {0, 2, 3} and disagreement is None
    assert findings[0].fault is EndpointFault.FORKED and "the proven one 0x" in findings[0].reason
    assert compare(100, {0: view(2)}, NOW, proven)[0][0].fault is EndpointFault.FORKED
