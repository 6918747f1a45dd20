"""Messages from arrival to validation result, and the wasted-bytes budget of peers."""

from hashlib import sha256

import pytest

from rollup_node.stages.p2p.encoding import snappy, varint
from rollup_node.stages.p2p.encoding.snappy import MAX_BYTES, SnappyFailure
from rollup_node.stages.p2p.gossipsub.params import MAX_PENDING_BYTES, MAX_PENDING_MESSAGES, GossipParams
from rollup_node.stages.p2p.gossipsub.peers import TraceEvent
from rollup_node.stages.p2p.gossipsub.rpc import PubsubMessage, Rpc
from rollup_node.stages.p2p.gossipsub.validation_queue import (
    MIN_PEERS,
    TOTAL_SHARE,
    SeenCache,
    ValidationResult,
    WorkBudget,
    message_id,
)
from tests.support.p2p.gossip_routers import TOPIC, RouterHarness, compressed


def test_pending_messages_are_bounded_and_may_be_sent_again(harness: RouterHarness) -> None:
    (a,) = harness.add_members(1)
    unvalidated = [
        result
        for number in range(MAX_PENDING_MESSAGES + 5)
        for result in harness.receive_message(a, number.to_bytes(4, "big"))
    ]
    assert len(unvalidated) == len(harness.router.validation_queue.pending) == MAX_PENDING_MESSAGES
    assert harness.receive_message(a, b"late") == []
    harness.router.report_validation_result(unvalidated[0].id, ValidationResult.IGNORE, harness.now)
    assert len(harness.receive_message(a, b"late")) == 1, "a dropped message is not marked as seen"


def test_pending_messages_are_bounded_in_bytes(harness: RouterHarness) -> None:
    unvalidated = 0
    for number, peer in enumerate(harness.add_members(4)):
        data = compressed(bytes([number]) + bytes(MAX_BYTES - 1000))
        unvalidated += len(harness.receive(peer, Rpc(messages=[PubsubMessage(TOPIC, data)])))
    assert unvalidated == 2 and harness.router.validation_queue.pending_bytes <= MAX_PENDING_BYTES
    harness.heartbeats(8)
    assert harness.router.validation_queue.pending_bytes == 0


def test_a_peer_without_wasted_bytes_budget_is_ignored_until_the_next_heartbeat() -> None:
    params = GossipParams(wasted_bytes_budget=1_000_000, wasted_bytes_refill=200_000)
    harness = RouterHarness(params)
    a, b = harness.add_members(2)
    harness.accept(a, b"block")
    for _ in range(40):
        harness.receive_message(a, b"block")
    assert harness.router.take_event_counts()[TraceEvent.DUPLICATE_MESSAGE] == 16
    assert harness.receive_message(a, b"fresh") == [] and len(harness.receive_message(b, b"fresh")) == 1
    harness.heartbeats()
    assert len(harness.receive_message(a, b"more")) == 1
    harness.heartbeats(20)
    assert harness.router.peers.states[a].wasted_bytes_budget == 1_000_000


def test_rejected_messages_are_charged_to_all_senders() -> None:
    harness = RouterHarness(GossipParams(wasted_bytes_budget=1_000_000))
    a, b, c = harness.add_members(3)
    (incoming,) = harness.receive_message(a, bytes(50_000))
    harness.receive_message(b, bytes(50_000))
    harness.router.report_validation_result(incoming.id, ValidationResult.REJECT, harness.now)
    left = [harness.router.peers.states[peer].wasted_bytes_budget for peer in (a, b, c)]
    assert left[0] < 1_000_000 - 50_000 and left[1] < left[0] and left[2] == 1_000_000


def test_bombs_are_charged_once(harness: RouterHarness) -> None:
    (a,) = harness.add_members(1)
    decompressed = 0
    for number in range(10):
        data = compressed(number.to_bytes(2, "big") + bytes(MAX_BYTES - 100))
        for incoming in harness.receive(a, Rpc(messages=[PubsubMessage(TOPIC, data)])):
            decompressed += 1
            harness.router.report_validation_result(incoming.id, ValidationResult.REJECT, harness.now)
    assert decompressed <= 7
    length_only = varint.encode(MAX_BYTES) + b"\x00a"
    harness.heartbeats(40)
    (incoming,) = harness.receive(a, Rpc(messages=[PubsubMessage(TOPIC, length_only)]))
    assert incoming.content is SnappyFailure.BAD_DATA


A, B = b"a", b"b"


def test_debt_is_repaid_at_the_rate_of_a_share() -> None:
    budget = WorkBudget()
    assert budget.delay(A, 0.0) == 0.0
    budget.charge(A, 0.1, 0.0)
    assert budget.delay(A, 0.0) == pytest.approx(0.1 * MIN_PEERS / TOTAL_SHARE)
    assert budget.delay(A, 1.0) == pytest.approx(0.1 * MIN_PEERS / TOTAL_SHARE - 1.0)
    assert budget.delay(A, 0.1 * MIN_PEERS / TOTAL_SHARE + 0.01) == 0.0 and budget.delay(B, 0.0) == 0.0


def test_the_share_shrinks_with_more_peers() -> None:
    budget = WorkBudget()
    for number in range(4 * MIN_PEERS):
        budget.charge(bytes([number]), 0.1, 0.0)
    assert budget.delay(b"\x00", 0.0) == pytest.approx(0.1 * 4 * MIN_PEERS / TOTAL_SHARE)


def test_op_node_ids_include_the_topic() -> None:
    content = b"a block"
    data = snappy.compress(content)
    expected = sha256(b"\x01\0\0\0" + len(TOPIC).to_bytes(8, "little") + TOPIC.encode() + content).digest()[:20]
    assert message_id(TOPIC, data, content) == expected


def test_undecompressable_data_is_hashed_raw() -> None:
    data = b"\xff\xff"
    content = snappy.decompress(data)
    expected = sha256(bytes(4) + len(TOPIC).to_bytes(8, "little") + TOPIC.encode() + data).digest()[:20]
    assert message_id(TOPIC, data, content) == expected


def test_seen_ids_expire(harness: RouterHarness) -> None:
    (peer,) = harness.add_members(1)
    harness.accept(peer, b"block")
    harness.heartbeats()
    assert len(harness.router.validation_queue.seen) == 1
    harness.now += 66
    harness.heartbeats()
    assert len(harness.router.validation_queue.seen) == 0


def test_the_cache_is_bounded_and_expires() -> None:
    cache = SeenCache(65.0, 100)
    for number in range(1000):
        cache.add(number.to_bytes(2, "big"), number / 1000)
    assert len(cache) == 100 and cache.has((999).to_bytes(2, "big"), 1.0) and not cache.has(bytes(2), 1.0)
    cache.remove_expired(65.95)
    assert len(cache) == 49
    cache.remove_expired(100.0)
    assert len(cache) == 0
