"""Mesh maintenance: bounds, backoff, scores, GRAFT and PRUNE [GSP6, GSP7]."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.p2p.config import PeerScoring
from rollup_node.stages.p2p.gossipsub.mesh import MAX_PER_TOPIC, PruneBackoff
from rollup_node.stages.p2p.gossipsub.params import MESHSUB_10, MESHSUB_11, GossipParams
from rollup_node.stages.p2p.gossipsub.rpc import Prune
from tests.support.p2p.gossip_routers import OTHER_TOPIC, TOPIC, RouterHarness


def test_a_mesh_below_d_lo_is_grafted_to_d(harness: RouterHarness) -> None:
    peers = harness.add_peers(20)
    harness.heartbeats()
    assert len(harness.mesh) == 8
    for peer in peers:
        assert harness.sent_to(peer).graft == ([TOPIC] if peer in harness.mesh else [])
    before = harness.mesh
    harness.heartbeats(5)
    assert harness.mesh == before, "a mesh within its bounds stays"


def test_a_mesh_above_d_hi_is_pruned_to_d(harness: RouterHarness) -> None:
    members = harness.add_members(12, outbound=True)
    harness.heartbeats()
    assert harness.mesh == members, "D_hi is not too many"
    members.append(harness.add_peer("more", outbound=True))
    harness.receive_control(members[-1], graft=[TOPIC])
    for peer in members[:3]:
        harness.scorer.application.on_valid_response(peer, harness.now)
    harness.heartbeats()
    assert len(harness.mesh) == 8 and set(members[:3]) <= set(harness.mesh), "the best peers stay"
    for peer in members:
        pruned = peer not in harness.mesh
        assert harness.sent_to(peer).prune == ([Prune(TOPIC, 60)] if pruned else [])
        assert harness.router.meshes.backoff.blocks_graft(TOPIC, peer) == pruned


def test_pruning_keeps_d_out_outbound_peers_and_random_others() -> None:
    always: set[bytes] = set()
    for seed in range(12):
        harness = RouterHarness(seed=seed)
        harness.add_members(12)
        outbound_peers = [harness.add_peer(f"d{number}", outbound=True) for number in range(2)]
        for peer in outbound_peers:
            harness.receive_control(peer, graft=[TOPIC])
        for peer in harness.router.peers.states:
            if peer not in outbound_peers:
                harness.scorer.application.on_valid_response(peer, harness.now)
        harness.heartbeats()
        assert len(harness.mesh) == 8
        always = always & set(harness.mesh) if seed else set(harness.mesh)
    assert always == set(outbound_peers)


@pytest.mark.parametrize("members", [6, 8])
def test_outbound_peers_are_grafted_up_to_d_out(harness: RouterHarness, members: int) -> None:
    harness.add_members(members)
    outbound_peers = [harness.add_peer(f"d{number}", outbound=True) for number in range(5)]
    harness.heartbeats()
    assert len(harness.mesh) == members + 2 and len(set(outbound_peers) & set(harness.mesh)) == 2


def test_grafts_above_d_hi_are_accepted_from_outbound_peers_only(harness: RouterHarness) -> None:
    harness.add_members(12)
    inbound, outbound = harness.add_peer("inbound"), harness.add_peer("outbound", outbound=True)
    harness.receive_control(inbound, graft=[TOPIC])
    assert inbound not in harness.mesh and harness.sent_to(inbound).prune == [Prune(TOPIC, 60)]
    harness.receive_control(outbound, graft=[TOPIC])
    assert outbound in harness.mesh and not harness.sent_to(outbound).rpcs


def test_grafts_of_other_topics_and_repeated_grafts_are_ignored(harness: RouterHarness) -> None:
    a = harness.add_peer("a")
    harness.receive_control(a, graft=[OTHER_TOPIC, "/else"])
    assert not harness.sent_to(a).rpcs
    harness.receive_control(a, graft=[TOPIC, TOPIC])
    assert harness.mesh == [a] and not harness.sent_to(a).rpcs and harness.scorer.score(a) == 0.0


def test_a_graft_during_backoff_is_penalized(harness: RouterHarness) -> None:
    (a,) = harness.add_members(1)
    harness.receive_control(a, prune=[Prune(TOPIC, 60)])
    harness.now += 9.9
    harness.receive_control(a, graft=[TOPIC])
    assert harness.scorer.gossip_scores(a).behavioral_penalty == 2, "twice within graft_flood_threshold"
    assert harness.sent_to(a).prune == [Prune(TOPIC, 60)]
    harness.now += 59.9
    harness.receive_control(a, graft=[TOPIC])
    assert harness.scorer.gossip_scores(a).behavioral_penalty == 3, "each early graft restarts the backoff"
    harness.now += 60.1
    harness.receive_control(a, graft=[TOPIC])
    assert a in harness.mesh and harness.scorer.gossip_scores(a).behavioral_penalty == 3


def test_a_peer_with_a_negative_score_is_pruned_and_not_grafted(harness: RouterHarness) -> None:
    a, b = harness.add_members(2)
    harness.scorer.add_penalty(a, 8)
    harness.heartbeats()
    assert harness.mesh == [b] and harness.sent_to(a).prune == [Prune(TOPIC, 60)]
    harness.router.meshes.backoff.clear_expired(harness.now + 100)
    harness.now += 100
    harness.scorer.add_penalty(a, -1.5)  # type: ignore[arg-type]
    assert -10 <= harness.scorer.score(a) < 0
    harness.receive_control(a, graft=[TOPIC])
    assert harness.mesh == [b] and harness.sent_to(a).prune == [Prune(TOPIC, 60)]
    assert harness.router.meshes.backoff.blocks_graft(TOPIC, a)


def test_no_graft_is_sent_during_backoff(harness: RouterHarness) -> None:
    a, b, c = harness.add_peers(3)
    for peer, backoff in ((a, 30), (b, 1 << 63), (c, None)):
        harness.receive_control(peer, prune=[Prune(TOPIC, backoff)])
    harness.heartbeats(60)
    assert harness.mesh == []
    for heartbeats in (20, 39):
        harness.heartbeats(heartbeats)
        assert harness.mesh == [a], "with the slack of prune backoffs"
    harness.heartbeats(30)
    assert harness.mesh == [a, c], "a minute where the peer names no time"
    harness.now += 3600.0
    harness.heartbeats(30)
    assert harness.mesh == [a, c, b], "a backoff is at most an hour"


@pytest.mark.parametrize(("protocol", "backoff"), [(MESHSUB_10, None), (MESHSUB_11, 60)])
def test_prune_to_v10_peers_has_no_backoff(harness: RouterHarness, protocol: str, backoff: int | None) -> None:
    harness.add_members(12)
    peer = harness.add_peer("peer", protocol=protocol)
    harness.receive_control(peer, graft=[TOPIC])
    assert harness.sent_to(peer).prune == [Prune(TOPIC, backoff)]


def test_opportunistic_grafting_improves_a_poor_mesh(harness: RouterHarness) -> None:
    members = harness.add_members(8)
    better = harness.add_peer("better")
    harness.scorer.application.on_valid_response(better, harness.now)
    harness.heartbeats(59)
    assert harness.mesh == members
    harness.heartbeats()
    assert better in harness.mesh


@pytest.mark.parametrize("scoring", list(PeerScoring))
def test_opportunistic_grafting_leaves_a_good_mesh_unchanged(scoring: PeerScoring) -> None:
    harness = RouterHarness(scoring=scoring)
    members = harness.add_members(8)
    for number in range(4):
        harness.add_peer(f"more{number}")
    harness.heartbeats(130)
    assert harness.mesh == members


@settings(max_examples=25)
@given(st.integers(0, 1 << 30), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 29)), min_size=20, max_size=60))
def test_bounds_hold_whatever_happens(seed: int, steps: list[tuple[int, int]]) -> None:
    harness = RouterHarness(GossipParams(prune_backoff=3.0), seed=seed)
    for number in range(30):
        harness.add_peer(f"{number:03}", outbound=number % 3 == 0)
    for action, number in steps:
        peer = f"{number:03}".encode()
        if action == 0:
            harness.router.remove_peer(peer, harness.now)
        elif peer not in harness.router.peers.states:
            harness.add_peer(peer.decode(), outbound=number % 3 == 0)
        elif action == 1:
            harness.receive_control(peer, graft=[TOPIC])
        elif action == 2:
            harness.receive_control(peer, prune=[Prune(TOPIC, 2)])
        elif action == 3:
            harness.scorer.add_penalty(peer, 4)
        else:
            harness.heartbeats()
            # As in go-libp2p, a full mesh without enough outbound peers gets them in addition.
            assert len(harness.mesh) <= 12 + 2 and all(harness.scorer.score(item) >= 0 for item in harness.mesh)
            candidates = [
                topic_peer
                for topic_peer in harness.router.peers.topic_peers(TOPIC)
                if topic_peer not in harness.mesh
                and harness.scorer.score(topic_peer) >= 0
                and not harness.router.meshes.backoff.blocks_graft(TOPIC, topic_peer)
            ]
            assert len(harness.mesh) >= 6 or not candidates
    assert set(harness.mesh) <= set(harness.router.peers.states)


def test_backoff() -> None:
    backoff = PruneBackoff(2.0)
    assert backoff.ends_at("t", b"p") is None and not backoff.blocks_graft("t", b"p")
    backoff.add("t", b"p", 60.0, 100.0)
    backoff.add("t", b"p", 10.0, 100.0)
    assert backoff.ends_at("t", b"p") == 160.0 and not backoff.blocks_graft("u", b"p")
    backoff.clear_expired(162.0)
    assert backoff.blocks_graft("t", b"p")
    backoff.clear_expired(162.1)
    assert not backoff.blocks_graft("t", b"p") and len(backoff) == 0


def test_memory_is_bounded() -> None:
    backoff = PruneBackoff(2.0)
    for number in range(MAX_PER_TOPIC + 10):
        backoff.add("t", number.to_bytes(4, "big"), 60.0, 0.0)
    assert len(backoff) == MAX_PER_TOPIC and not backoff.blocks_graft("t", bytes(4))
