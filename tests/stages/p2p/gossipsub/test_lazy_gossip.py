"""IHAVE, IWANT and promises, with their bounds."""

from rollup_node.stages.p2p.gossipsub.message import ValidationResult
from rollup_node.stages.p2p.gossipsub.params import FLOODSUB
from rollup_node.stages.p2p.gossipsub.rpc import IHave
from tests.support.gossip_world import OTHER_TOPIC, TOPIC, World, id_of, packed


def made_up(count: int, start: int = 0) -> list[bytes]:
    return [(start + number).to_bytes(20, "big") for number in range(count)]


def test_peers_outside_of_the_mesh_are_told_for_three_heartbeats() -> None:
    world = World()
    members = world.add_members(8)
    outsider, old = world.add("out"), world.add("old", protocol=FLOODSUB)
    world.accept(members[0], b"block")
    for _ in range(3):
        world.beat()
        assert [(each.topic, list(each.ids)) for each in world.said(outsider).ihave] == [(TOPIC, [id_of(b"block")])]
    world.beat()
    assert not world.said(outsider).ihave
    assert not any(world.said(peer).ihave for peer in (*members, old))


def test_six_are_told_or_a_quarter() -> None:
    for count, expected in ((20, 6), (40, 10)):
        world = World()
        members = world.add_members(8)
        others = [world.add(f"out{number}") for number in range(count)]
        world.accept(members[0], b"block")
        world.beat()
        assert sum(bool(world.said(peer).ihave) for peer in others) == expected


def test_bad_peers_are_not_told_nor_answered_nor_asked() -> None:
    world = World()
    members = world.add_members(8)
    bad = world.add("bad")
    world.scores.add_penalty(bad, 7)
    assert world.scores.score(bad) == -16.0
    world.accept(members[0], b"block")
    world.beat()
    world.control(bad, iwant=[id_of(b"block")], ihave=[IHave(TOPIC, made_up(1))])
    assert not world.said(bad).rpcs


def test_a_message_can_be_asked_for_three_times_within_the_history() -> None:
    world = World()
    members = world.add_members(8)
    outsider = world.add("out")
    world.accept(members[0], b"block")
    world.beat(11)
    world.said(outsider)
    for expected in (1, 1, 1, 0, 0):
        world.control(outsider, iwant=[id_of(b"block")] * 3 + made_up(5))
        assert len(world.said(outsider).messages) == expected
    world.beat()
    world.control(members[1], iwant=[id_of(b"block")])
    assert not world.said(members[1]).messages[1:], "after twelve heartbeats it is gone"


def test_what_is_lacking_is_asked_for() -> None:
    world = World()
    (a,) = world.add_members(1)
    world.accept(a, b"known")
    world.control(a, ihave=[IHave(TOPIC, [id_of(b"known"), id_of(b"new")]), IHave(OTHER_TOPIC, made_up(2))])
    assert world.said(a).iwant == [id_of(b"new")]


def test_a_kept_promise_costs_nothing_whoever_keeps_it() -> None:
    world = World()
    a, b = world.add_members(2)
    world.control(a, ihave=[IHave(TOPIC, [id_of(b"new")])])
    world.accept(b, b"new")
    world.beat(8)
    assert world.scores.snapshot(a).behaviour_penalty == 0.0


def test_a_refused_message_keeps_the_promise() -> None:
    world = World()
    (a,) = world.add_members(1)
    world.control(a, ihave=[IHave(TOPIC, [id_of(b"new")])])
    (incoming,) = world.message(a, b"new")
    world.router.report_validation_result(incoming.id, ValidationResult.REJECT, world.now)
    world.beat(8)
    assert world.scores.snapshot(a).behaviour_penalty == 0.0


def test_a_broken_promise_is_misbehaviour() -> None:
    world = World()
    (a,) = world.add_members(1)
    world.control(a, ihave=[IHave(TOPIC, made_up(50))])
    world.beat(6)
    assert world.scores.snapshot(a).behaviour_penalty == 0.0
    world.beat()
    assert world.scores.snapshot(a).behaviour_penalty == 1.0, "one of the ids asked for at once is watched"
    assert len(world.router.lazy_gossip.promises) == 0


def test_asks_are_bounded_per_heartbeat() -> None:
    world = World()
    (a,) = world.add_members(1)
    asked = 0
    for number in range(30):
        world.control(a, ihave=[IHave(TOPIC, made_up(100, 1000 * number))])
        asked += len(world.said(a).iwant)
    assert asked == 1000, "ten messages"
    world.beat()
    world.said(a)
    for number in range(3):
        world.control(a, ihave=[IHave(TOPIC, made_up(3000, 10_000 * number))])
    assert len(world.said(a).iwant) == 5000, "five thousand ids"
    world.beat()
    world.said(a)
    world.control(a, ihave=[IHave(TOPIC, made_up(6000, 1 << 40))])
    assert len(world.said(a).iwant) == 5000


def test_own_messages_are_told_of_and_served() -> None:
    world = World()
    members = world.add_members(8)
    outsider = world.add("out")
    world.router.publish(TOPIC, packed(b"own"), world.now)
    world.beat()
    assert [list(each.ids) for each in world.said(outsider).ihave] == [[id_of(b"own")]]
    world.control(outsider, iwant=[id_of(b"own")])
    assert world.said(outsider).messages[0].data == packed(b"own")
    assert len(members) == 8
