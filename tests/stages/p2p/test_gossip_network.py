"""Up to forty routers in one process, with links that delay and lose RPCs."""

import pytest

from tests.support.p2p.gossip_routers import TOPIC, GossipSimulation

HEARTBEATS = 2 * 0.5


def delivery_times(network: GossipSimulation, content: bytes, source: bytes) -> dict[bytes, float]:
    """Seconds until each router received a block, within two heartbeats."""
    start = network.now
    message = network.publish(source, content)
    network.run_until(start + HEARTBEATS)
    return {name: at - start for name, at in network.received_at[message].items()}


@pytest.mark.parametrize(("routers", "seed", "links", "loss"), [(30, 1, 20, 0.02), (24, 2, 23, 0.1)])
def test_every_block_reaches_all_within_two_heartbeats(routers: int, seed: int, links: int, loss: float) -> None:
    network = GossipSimulation(routers, links, seed, loss)
    network.run_until(3.0)
    assert min(network.mesh_sizes()) >= 6 and max(network.mesh_sizes()) <= 12
    for number in range(3):
        source = network.names[network.random.randrange(routers)]
        content = b"block" + bytes([number]) + network.random.randbytes(1500)
        assert len(delivery_times(network, content, source)) == routers
    network.run_until(network.now + 2.0)
    assert min(network.mesh_sizes()) >= 6 and max(network.mesh_sizes()) <= 12
    assert all(router.scorer.score(peer) == 0 for router in network.routers.values() for peer in router.peers.states)


@pytest.mark.fault("F50")
def test_a_mesh_of_two() -> None:
    network = GossipSimulation(2, 1, 3, 0.0)
    network.run_until(3.0)
    assert network.mesh_sizes() == [1, 1]
    assert len(delivery_times(network, b"block", network.names[0])) == 2


def test_a_partitioned_router_catches_up_by_gossip() -> None:
    network = GossipSimulation(20, 19, 4, 0.0)
    network.run_until(4.0)
    partitioned = network.names[7]
    network.disconnected.add(partitioned)
    message = network.publish(network.names[0], b"missed")
    network.run_until(network.now + 0.4)
    assert set(network.received_at[message]) == set(network.names) - {partitioned}
    network.disconnected.clear()
    network.run_until(network.now + 1.5)
    assert partitioned in network.received_at[message], "by IHAVE and IWANT"


def test_peers_that_leave_are_replaced() -> None:
    network = GossipSimulation(40, 30, 5, 0.02)
    network.run_until(4.0)
    removed = network.names[:10]
    for name in removed:
        for other in network.names:
            network.routers[other].remove_peer(name, network.now)
            network.routers[name].remove_peer(other, network.now)
    remaining = network.names[10:]
    network.run_until(network.now + 3.0)
    assert all(6 <= len(network.routers[name].meshes.members[TOPIC]) <= 12 for name in remaining)
    assert set(delivery_times(network, b"after", remaining[3])) == set(remaining)
