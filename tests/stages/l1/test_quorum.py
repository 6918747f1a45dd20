"""What the L1 endpoints say of the same block, compared."""

from rollup_node.stages.l1.endpoint_pool import EndpointFault
from rollup_node.stages.l1.quorum import STALE_SECONDS, View, compare
from rollup_node.stages.protocol.types import L1BlockRef

NOW = 10_000


def view(block: int | None, age: int = 0, number: int = 103) -> View:
    """Of an endpoint whose head has that age, with a hash of block 100 that ends with `block`."""
    head = L1BlockRef(bytes(32), number, bytes(32), NOW - age)
    return View(head, None if block is None else block.to_bytes(32, "big"))


def test_equal_views() -> None:
    assert compare(100, {0: view(1), 1: view(1, age=STALE_SECONDS), 2: view(1)}, NOW) == ({}, None)
    assert compare(100, {}, NOW) == ({}, None)
    assert compare(100, {1: View(None, None)}, NOW) == ({}, None)


def test_the_majority_is_right() -> None:
    findings, disagreement = compare(100, {0: view(2), 1: view(1), 2: view(1)}, NOW)
    assert disagreement is None and list(findings) == [0]
    assert findings[0].fault is EndpointFault.FORKED
    assert findings[0].reason == f"its block 100 is 0x{2:064x}, that of 2 others 0x{1:064x}"


def test_without_a_majority_nobody_is_wrong() -> None:
    for views in ({0: view(1), 1: view(2)}, {0: view(1), 1: view(1), 2: view(2), 3: view(3)}):
        findings, disagreement = compare(100, views, NOW)
        assert findings == {} and disagreement is not None
        assert "disagree on block 100, and there is no majority" in disagreement


def test_who_lacks_the_block_is_behind() -> None:
    findings, disagreement = compare(100, {0: view(None, number=90), 1: view(1)}, NOW)
    assert disagreement is None
    assert findings[0] == (EndpointFault.BEHIND, "it does not have block 100; its head is 90")


def test_whose_head_is_old_is_behind() -> None:
    findings, _ = compare(100, {0: view(1, age=STALE_SECONDS + 1), 1: view(1)}, NOW)
    assert list(findings) == [0] and findings[0].fault is EndpointFault.BEHIND
    assert findings[0].reason == f"its head 103 is {STALE_SECONDS + 1} s behind another one's"


def test_a_head_from_the_future_makes_nobody_seem_behind() -> None:
    assert compare(100, {0: view(1), 1: view(1, age=-100_000)}, NOW) == ({}, None)
