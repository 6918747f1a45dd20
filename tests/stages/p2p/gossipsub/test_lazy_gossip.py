"""Lazy gossip: IHAVE, IWANT and promises, with their bounds."""

from rollup_node.stages.p2p.gossipsub.params import FLOODSUB
from rollup_node.stages.p2p.gossipsub.rpc import IHave
from rollup_node.stages.p2p.gossipsub.validation_queue import ValidationResult
from tests.support.p2p.gossip_routers import OTHER_TOPIC, TOPIC, RouterHarness, id_of


def unknown_ids(count: int, first: int = 0) -> list[bytes]:
    return [(first + number).to_bytes(20, "big") for number in range(count)]


def test_ihave_is_sent_outside_of_the_mesh_for_three_heartbeats(harness: RouterHarness) -> None:
    members = harness.add_members(8)
    non_member, floodsub_peer = harness.add_peer("out"), harness.add_peer("floodsub_peer", protocol=FLOODSUB)
    harness.accept(members[0], b"block")
    for _ in range(3):
        harness.heartbeats()
        assert [(item.topic, list(item.ids)) for item in harness.sent_to(non_member).ihave] == [
            (TOPIC, [id_of(b"block")])
        ]
    harness.heartbeats()
    assert not harness.sent_to(non_member).ihave
    assert not any(harness.sent_to(peer).ihave for peer in (*members, floodsub_peer))


def test_ihave_goes_to_six_peers_or_a_quarter() -> None:
    for count, expected in ((20, 6), (40, 10)):
        harness = RouterHarness()
        members = harness.add_members(8)
        others = [harness.add_peer(f"out{number}") for number in range(count)]
        harness.accept(members[0], b"block")
        harness.heartbeats()
        assert sum(bool(harness.sent_to(peer).ihave) for peer in others) == expected


def test_peers_below_the_gossip_threshold_get_no_gossip(harness: RouterHarness) -> None:
    members = harness.add_members(8)
    bad = harness.add_peer("bad")
    harness.scorer.add_penalty(bad, 7)
    assert harness.scorer.score(bad) == -16.0
    harness.accept(members[0], b"block")
    harness.heartbeats()
    harness.receive_control(bad, iwant=[id_of(b"block")], ihave=[IHave(TOPIC, unknown_ids(1))])
    assert not harness.sent_to(bad).rpcs


def test_a_message_is_sent_three_times_on_iwant_within_the_history(harness: RouterHarness) -> None:
    members = harness.add_members(8)
    non_member = harness.add_peer("out")
    harness.accept(members[0], b"block")
    harness.heartbeats(11)
    harness.sent_to(non_member)
    for expected in (1, 1, 1, 0, 0):
        harness.receive_control(non_member, iwant=[id_of(b"block")] * 3 + unknown_ids(5))
        assert len(harness.sent_to(non_member).messages) == expected
    harness.heartbeats()
    harness.receive_control(members[1], iwant=[id_of(b"block")])
    assert not harness.sent_to(members[1]).messages[1:], "it is cached for twelve heartbeats"


def test_missing_messages_are_requested_by_iwant(harness: RouterHarness) -> None:
    (a,) = harness.add_members(1)
    harness.accept(a, b"known")
    harness.receive_control(
        a, ihave=[IHave(TOPIC, [id_of(b"known"), id_of(b"new")]), IHave(OTHER_TOPIC, unknown_ids(2))]
    )
    assert harness.sent_to(a).iwant == [id_of(b"new")]


def test_a_promise_is_fulfilled_by_any_peer_whatever_comes_of_the_message(harness: RouterHarness) -> None:
    a, b = harness.add_members(2)
    harness.receive_control(a, ihave=[IHave(TOPIC, [id_of(b"new")])])
    (incoming,) = harness.receive_message(b, b"new")
    harness.router.report_validation_result(incoming.id, ValidationResult.REJECT, harness.now)
    harness.heartbeats(8)
    assert harness.scorer.gossip_scores(a).behavioral_penalty == 0.0


def test_a_broken_promise_is_penalized(harness: RouterHarness) -> None:
    (a,) = harness.add_members(1)
    harness.receive_control(a, ihave=[IHave(TOPIC, unknown_ids(50))])
    harness.heartbeats(6)
    assert harness.scorer.gossip_scores(a).behavioral_penalty == 0.0
    harness.heartbeats()
    assert harness.scorer.gossip_scores(a).behavioral_penalty == 1.0, "one id of each IWANT is a promise"
    assert len(harness.router.lazy_gossip.promises) == 0


def test_iwant_is_bounded_per_heartbeat(harness: RouterHarness) -> None:
    (a,) = harness.add_members(1)
    requested = 0
    for number in range(30):
        harness.receive_control(a, ihave=[IHave(TOPIC, unknown_ids(100, 1000 * number))])
        requested += len(harness.sent_to(a).iwant)
    assert requested == 1000, "ten messages"
    harness.heartbeats()
    harness.sent_to(a)
    for number in range(3):
        harness.receive_control(a, ihave=[IHave(TOPIC, unknown_ids(3000, 10_000 * number))])
    assert len(harness.sent_to(a).iwant) == 5000, "five thousand ids"
    harness.heartbeats()
    harness.sent_to(a)
    harness.receive_control(a, ihave=[IHave(TOPIC, unknown_ids(6000, 1 << 40))])
    assert len(harness.sent_to(a).iwant) == 5000
