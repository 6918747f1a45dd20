"""Upkeep of the mesh: bounds, backoff, scores, and what is said about it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.p2p.config import PeerScoring
from rollup_node.stages.p2p.gossipsub.params import MESHSUB_10, GossipParams
from rollup_node.stages.p2p.gossipsub.rpc import Prune, Rpc, Subscription
from tests.support.gossip_world import OTHER_TOPIC, TOPIC, World


def test_a_lacking_mesh_is_filled_to_d() -> None:
    world = World()
    peers = world.add_many(20)
    world.beat()
    assert len(world.mesh) == 8
    for peer in peers:
        assert world.said(peer).graft == ([TOPIC] if peer in world.mesh else [])
    before = world.mesh
    world.beat(5)
    assert world.mesh == before, "a mesh within its bounds stays"


def test_a_mesh_of_six_is_left_alone_and_one_of_five_is_filled() -> None:
    world = World()
    members = world.add_members(6)
    for number in range(10):
        world.add(f"more{number}")
    world.beat(3)
    assert world.mesh == members
    world.router.remove_peer(members[0], world.now)
    world.beat()
    assert len(world.mesh) == 8


def test_a_mesh_above_twelve_is_thinned_to_d() -> None:
    world = World()
    members = world.add_members(13, outbound=True)
    for peer in members[:3]:
        world.scores.application.on_valid_response(peer, world.now)
    world.beat()
    assert len(world.mesh) == 8 and set(members[:3]) <= set(world.mesh), "the best stay"
    for peer in members:
        pruned = peer not in world.mesh
        assert world.said(peer).prune == ([Prune(TOPIC, 60)] if pruned else [])
        assert world.router.meshes.backoff.blocks_graft(TOPIC, peer) == pruned


def test_thinning_keeps_two_that_we_dialled() -> None:
    for seed in range(12):
        world = World(seed=seed)
        world.add_members(12)
        dialled = [world.add(f"d{number}", outbound=True) for number in range(2)]
        for peer in dialled:
            world.control(peer, graft=[TOPIC])
        for peer in world.router.peers.states:
            if peer not in dialled:
                world.scores.application.on_valid_response(peer, world.now)
        world.beat()
        assert len(world.mesh) == 8 and set(dialled) <= set(world.mesh)


def test_a_mesh_gets_two_that_we_dialled() -> None:
    world = World()
    world.add_members(8)
    dialled = [world.add(f"d{number}", outbound=True) for number in range(5)]
    world.beat()
    assert len(world.mesh) == 10 and len(set(dialled) & set(world.mesh)) == 2


def test_grafts_beyond_twelve_only_from_those_we_dialled() -> None:
    world = World()
    world.add_members(12)
    late, dialled = world.add("late"), world.add("dialled", outbound=True)
    world.control(late, graft=[TOPIC])
    assert late not in world.mesh and world.said(late).prune == [Prune(TOPIC, 60)]
    world.control(dialled, graft=[TOPIC])
    assert dialled in world.mesh and not world.said(dialled).rpcs


def test_grafts_of_other_topics_and_repeated_ones_are_nothing() -> None:
    world = World()
    a = world.add("a")
    world.control(a, graft=[OTHER_TOPIC, "/else"])
    assert not world.said(a).rpcs
    world.control(a, graft=[TOPIC, TOPIC])
    assert world.mesh == [a] and not world.said(a).rpcs and world.scores.score(a) == 0.0


def test_a_graft_within_the_backoff_is_misbehaviour() -> None:
    world = World()
    (a,) = world.add_members(1)
    world.control(a, prune=[Prune(TOPIC, 60)])
    world.now += 9.9
    world.control(a, graft=[TOPIC])
    assert world.scores.snapshot(a).behaviour_penalty == 2, "doubly so within ten seconds"
    assert world.said(a).prune == [Prune(TOPIC, 60)]
    world.now += 59.9
    world.control(a, graft=[TOPIC])
    assert world.scores.snapshot(a).behaviour_penalty == 3, "each try prolongs it"
    world.now += 60.1
    world.control(a, graft=[TOPIC])
    assert a in world.mesh and world.scores.snapshot(a).behaviour_penalty == 3


def test_a_bad_peer_is_neither_kept_nor_taken() -> None:
    world = World()
    a, b = world.add_members(2)
    world.scores.add_penalty(a, 8)
    world.beat()
    assert world.mesh == [b] and world.said(a).prune == [Prune(TOPIC, 60)]
    world.router.meshes.backoff.clear_expired(world.now + 100)
    world.now += 100
    world.scores.add_penalty(a, -1.5)  # type: ignore[arg-type]
    assert -10 <= world.scores.score(a) < 0
    world.control(a, graft=[TOPIC])
    assert world.mesh == [b] and world.said(a).prune == [Prune(TOPIC, 60)]
    assert world.router.meshes.backoff.blocks_graft(TOPIC, a)


def test_we_do_not_graft_within_a_backoff() -> None:
    world = World()
    a, b = world.add("a"), world.add("b")
    world.control(a, prune=[Prune(TOPIC, 30)])
    world.control(b, prune=[Prune(TOPIC, 1 << 63)])
    world.beat(60)
    assert world.mesh == []
    world.beat(20)
    assert world.mesh == [a], "some time after its end"
    world.beat(7200)
    assert set(world.mesh) == {a, b}, "nobody's backoff is longer than an hour"


def test_the_backoff_of_a_pruned_peer_is_ours_too() -> None:
    world = World()
    (a,) = world.add_members(1)
    world.control(a, prune=[Prune(TOPIC)])
    world.beat(119)
    assert world.mesh == []
    world.beat(30)
    assert world.mesh == [a]


def test_old_peers_are_not_told_of_backoff() -> None:
    world = World()
    world.add_members(12)
    old = world.add("old", protocol=MESHSUB_10)
    world.control(old, graft=[TOPIC])
    assert world.said(old).prune == [Prune(TOPIC)]


def test_what_is_said_to_one_peer_is_not_said_to_the_next() -> None:
    world = World()
    a, b = world.add("a"), world.add("b", joins=False)
    world.tell(b, Rpc(subscriptions=[Subscription(OTHER_TOPIC, True)]))
    world.router.join(OTHER_TOPIC)
    world.said(a), world.said(b)
    world.router.meshes.members[OTHER_TOPIC].clear()
    world.beat()
    assert world.said(a).graft == [TOPIC] and world.said(b).graft == [OTHER_TOPIC]


def test_joining_and_leaving() -> None:
    world = World()
    peers = world.add_many(10)
    for peer in peers:
        world.tell(peer, Rpc(subscriptions=[Subscription(OTHER_TOPIC, True)]))
    world.router.join(OTHER_TOPIC)
    members = list(world.router.meshes.members[OTHER_TOPIC])
    assert len(members) == 8 and world.said(members[0]).graft == [OTHER_TOPIC]
    world.router.leave(OTHER_TOPIC, world.now)
    said = world.said(members[0])
    assert said.prune == [Prune(OTHER_TOPIC, 10)] and said.subscriptions == [Subscription(OTHER_TOPIC, False)]
    world.router.join(OTHER_TOPIC)
    assert set(world.router.meshes.members[OTHER_TOPIC]) == set(peers) - set(members)


def test_a_poor_mesh_is_improved_now_and_then() -> None:
    world = World()
    members = world.add_members(8)
    better = world.add("better")
    world.scores.application.on_valid_response(better, world.now)
    world.beat(59)
    assert world.mesh == members
    world.beat()
    assert better in world.mesh


@pytest.mark.parametrize("scoring", list(PeerScoring))
def test_a_mesh_of_good_peers_is_not_changed(scoring: PeerScoring) -> None:
    world = World(scoring=scoring)
    members = world.add_members(8)
    for number in range(4):
        world.add(f"more{number}")
    world.beat(130)
    assert world.mesh == members


@settings(max_examples=25)
@given(st.integers(0, 1 << 30), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 29)), min_size=20, max_size=60))
def test_bounds_hold_whatever_happens(seed: int, steps: list[tuple[int, int]]) -> None:
    world = World(GossipParams(prune_backoff=3.0), seed=seed)
    for number in range(30):
        world.add(f"{number:03}", outbound=number % 3 == 0)
    for kind, number in steps:
        peer = f"{number:03}".encode()
        if kind == 0:
            world.router.remove_peer(peer, world.now)
        elif peer not in world.router.peers.states:
            world.add(peer.decode(), outbound=number % 3 == 0)
        elif kind == 1:
            world.control(peer, graft=[TOPIC])
        elif kind == 2:
            world.control(peer, prune=[Prune(TOPIC, 2)])
        elif kind == 3:
            world.scores.add_penalty(peer, 4)
        else:
            world.beat()
            assert len(world.mesh) <= 12 and all(world.scores.score(each) >= 0 for each in world.mesh)
            free = [
                each
                for each in world.router.topic_peers(TOPIC)
                if each not in world.mesh
                and world.scores.score(each) >= 0
                and not world.router.meshes.backoff.blocks_graft(TOPIC, each)
            ]
            assert len(world.mesh) >= 6 or not free
    assert set(world.mesh) <= set(world.router.peers.states)
