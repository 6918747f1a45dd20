"""Discovery nodes in a simulated network."""

import ipaddress
from functools import partial

import pytest

from rollup_node.stages.p2p.discv5 import messages
from rollup_node.stages.p2p.discv5.calls import DiscoveryPurpose, OutgoingCall
from rollup_node.stages.p2p.discv5.enr import xor_distance
from rollup_node.stages.p2p.discv5.node import (
    MAX_LOOKUPS,
    MIN_VOTES,
    REFRESH_INTERVAL,
    VOTE_SECONDS,
    IpVotes,
    LocalEnrUpdated,
    NodeAlive,
)
from rollup_node.stages.p2p.discv5.packet_codec import PacketDrop
from tests.support.p2p.discv5_nodes import (
    Discv5Simulation,
    SimulatedNode,
    contact_of,
    endpoint,
    record_of,
    result_of,
    seeded,
)

ONE, TWO, THREE = (endpoint(f"127.0.0.{number}") for number in (1, 2, 3))


@pytest.mark.parametrize("has_record", [True, False])
def test_two_nodes_connect_by_a_bootnode_whose_record_may_be_unknown(
    network: Discv5Simulation, has_record: bool
) -> None:
    one, two = network.add("one", ONE), network.add("two", TWO)
    two.node.add_bootnodes([one.contact if has_record else one.contact._replace(record=None)])
    network.run(3)
    assert one.live_ids == {two.record.node_id} and two.live_ids == {one.record.node_id}
    assert [result.record for result in two.discovered] == [one.record]
    assert [result.tcp for result in one.discovered] == [TWO]
    assert not one.node.drops and not two.node.drops


def are_discovered(nodes: list[SimulatedNode]) -> bool:
    """Whether each has found all others."""
    everyone = {node.record.node_id for node in nodes}
    return all(everyone - {n.record.node_id} <= {result.record.node_id for result in n.discovered} for n in nodes)


def test_nodes_find_each_other_by_one_bootnode_and_lookups_the_closest_ones(network: Discv5Simulation) -> None:
    boot = network.add("boot", ONE, peers_wanted=False)
    nodes = network.add_many(12, boot=[boot])
    network.run(40, until=lambda: are_discovered(nodes))
    assert are_discovered(nodes)
    everyone = list(network.nodes.values())
    for node in everyone:
        node.node.peers_wanted = False
    fresh = network.add("fresh", TWO, peers_wanted=False)
    fresh.node.add_bootnodes([everyone[0].contact])
    network.run(5, until=lambda: bool(fresh.live_ids))
    # The last knows the bootnode alone.
    for number, node in enumerate([*everyone[1::4], fresh]):
        target = seeded(number)(32)
        lookup = node.node.start_lookup(target, network.now)
        assert lookup is not None
        network.run(10, until=partial(getattr, lookup, "is_done"))
        nearest = sorted([*everyone, fresh], key=lambda other: xor_distance(other.record.node_id, target))
        expected = [other.record.node_id for other in nearest if other is not node][:5]
        assert [contact.node_id for contact in result_of(lookup)][:5] == expected


def test_only_nodes_of_our_chain_are_emitted_but_all_are_in_the_table(network: Discv5Simulation) -> None:
    one = network.add("one", ONE)
    foreign = network.add("foreign", TWO, chain_id=10)
    ours = network.add("ours", THREE)
    one.node.add_bootnodes([foreign.contact, ours.contact])
    network.run(3)
    assert [result.record for result in one.discovered] == [ours.record]
    assert one.live_ids == {foreign.record.node_id, ours.record.node_id}
    assert one.node.table_stats() == (2, 2, 1, 1, 0)
    assert {output.record for output in one.outputs(NodeAlive) if isinstance(output, NodeAlive)} == {
        foreign.record,
        ours.record,
    }


def test_a_newer_record_that_a_ping_announces_is_fetched_once(network: Discv5Simulation) -> None:
    one, two = (network.add(name, at, peers_wanted=False) for name, at in (("one", ONE), ("two", TWO)))
    one.node.add_bootnodes([two.contact])
    network.run(2)
    for _ in range(2):
        ping = two.node.codec.encode_message(one.record.node_id, ONE, messages.encode(messages.Ping(b"\x01", 9)))
        assert ping is not None
        network.inject(TWO, ping.datagram, ONE)
        assert one.node.calls.count(DiscoveryPurpose.FETCH) == 1


def test_the_number_of_lookups_is_bounded(network: Discv5Simulation) -> None:
    one, two = (network.add(name, at, peers_wanted=False) for name, at in (("one", ONE), ("two", TWO)))
    one.node.add_bootnodes([two.contact])
    network.run(2)
    lookups = [one.node.start_lookup(seeded(number)(32), network.now) for number in range(MAX_LOOKUPS + 1)]
    assert lookups[-1] is None and one.node.lookups == lookups[:-1]
    network.run(20, until=lambda: not one.node.lookups)
    assert one.node.start_lookup(seeded(0)(32), network.now) is not None


def test_our_address_is_learned_from_a_majority(network: Discv5Simulation) -> None:
    true = ipaddress.ip_address("127.9.9.9")
    hidden = network.add("hidden", endpoint("127.9.9.9"), advertises_ip=False, learn_address=True)
    fixed = network.add("fixed", TWO, advertised_ip=ipaddress.ip_address("127.5.5.5"))
    nodes = network.add_many(12)
    assert hidden.record.udp(4) is None
    for learner in (hidden, fixed):
        learner.node.add_bootnodes(node.contact for node in nodes)
    network.run(20, until=lambda: bool(hidden.outputs(LocalEnrUpdated)))
    assert hidden.record.udp(4) == (true, 9222) and hidden.record.seq == 2
    assert hidden.outputs(LocalEnrUpdated) == [LocalEnrUpdated(hidden.record)]
    for node in (hidden, *nodes):
        node.node.peers_wanted = False

    def finders() -> int:
        return sum(hidden.record.node_id in node.live_ids for node in nodes)

    network.run(5 + REFRESH_INTERVAL, until=lambda: finders() >= 10)
    assert finders() >= 10
    assert fixed.record.seq == 1, "an address that is known stays"


def test_lookups_stop_when_there_are_enough_peers(network: Discv5Simulation) -> None:
    boot = network.add("boot", ONE, peers_wanted=False)
    nodes = network.add_many(3, boot=[boot])
    network.run(20)
    for node in nodes:
        node.node.peers_wanted = False
    before = sum(node.sent for node in nodes)
    network.run(40)
    idle = sum(node.sent for node in nodes) - before
    for node in nodes:
        node.node.peers_wanted = True
    before = sum(node.sent for node in nodes)
    network.run(40)
    assert sum(node.sent for node in nodes) - before > 5 * idle


def test_nothing_is_sent_outside_of_the_allowed_networks(network: Discv5Simulation) -> None:
    one, other = network.add("one", ONE), network.add("other", TWO, allowed_networks=())
    outside = [record_of(("out", number), f"198.51.{number}.7") for number in range(30)]
    for record in outside:
        entry = other.node.table.add_seen_node(record, network.now)
        assert entry is not None
        entry.checks = 1
    one.node.add_bootnodes([*map(contact_of, outside), other.contact])
    one.node.add_known_nodes(outside, network.now)
    network.inject(endpoint("198.51.100.7"), bytes(100), ONE)
    network.run(30)
    for record in outside:
        one.node.calls.submit(OutgoingCall(contact_of(record), DiscoveryPurpose.REVALIDATE), 1, network.now)
    network.run(5)
    targets = {sending.endpoint for sender, sending in network.log if sender == ONE}
    assert targets == {TWO}
    assert one.node.drops[PacketDrop.RESTRICTED] == 1


@pytest.mark.parametrize("requester", ["198.51.100.7", "8.8.8.8"])
def test_local_addresses_are_not_sent_to_remote_nodes(network: Discv5Simulation, requester: str) -> None:
    one = network.add("one", endpoint("9.9.9.9"), allowed_networks=())
    stranger = network.add("stranger", endpoint(requester), allowed_networks=(), peers_wanted=False)
    local = [record_of(number, f"127.0.1.{number}") for number in range(1, 20)]
    for record in local:
        entry = one.node.table.add_seen_node(record, network.now)
        assert entry is not None
        entry.checks = 1
    stranger.node.add_bootnodes([one.contact])
    network.run(2)
    call = OutgoingCall(one.contact, DiscoveryPurpose.FETCH, (256, 255, 254))
    stranger.node.calls.submit(call, 1, network.now)
    network.run(1)
    assert call.responses == 1 and not call.records


def test_a_node_is_not_its_own_bootnode(network: Discv5Simulation) -> None:
    one = network.add("one", ONE)
    one.node.add_bootnodes([one.contact, one.contact._replace(record=None)])
    network.run(30)
    assert one.sent == 0 and not one.node.is_busy


OURS, FALSE = endpoint("9.9.9.9"), endpoint("8.8.4.4", 1)


def votes_for(ours: int, false: int = 0) -> IpVotes:
    votes = IpVotes()
    for number in range(ours + false):
        votes.add(bytes([number]), endpoint(f"5.{number}.0.1"), OURS if number < ours else FALSE, 100.0)
    return votes


def test_a_majority_of_enough_votes_wins() -> None:
    assert votes_for(MIN_VOTES).winner(100.0) == OURS
    assert votes_for(MIN_VOTES - 1).winner(100.0) is None
    assert votes_for(9, 8).winner(100.0) == OURS
    assert votes_for(8, 8).winner(100.0) is None


def test_votes_expire() -> None:
    votes = votes_for(MIN_VOTES)
    assert votes.winner(99.0 + VOTE_SECONDS) == OURS
    assert votes.winner(100.0 + VOTE_SECONDS) is None and len(votes) == 0


def test_a_network_has_one_vote() -> None:
    votes = votes_for(MIN_VOTES)
    for number in range(250):
        votes.add(bytes([number]), endpoint(f"6.6.6.{number}"), FALSE, 100.0)
    assert len(votes) == MIN_VOTES + 1 and votes.winner(100.0) == OURS


def test_remote_nodes_cannot_vote_for_a_local_address() -> None:
    votes = IpVotes()
    for number in range(20):
        for claimed in ("127.0.0.1", "10.0.0.1", "0.0.0.0", "224.0.0.1"):
            votes.add(bytes([number]), endpoint(f"5.{number}.0.1"), endpoint(claimed), 100.0)
        votes.add(bytes([number]), endpoint(f"5.{number}.0.1"), endpoint("9.9.9.9", 0), 100.0)
    assert len(votes) == 0


def test_the_number_of_votes_is_bounded() -> None:
    votes = IpVotes()
    for number in range(1000):
        votes.add(b"", endpoint(f"5.{number >> 8}.{number & 255}.1"), OURS, 100.0)
    assert len(votes) == 200
