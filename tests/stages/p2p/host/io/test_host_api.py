"""The interface of the host for its services."""

from rollup_node.stages.p2p.gating.peer_drops import PeerDropReason
from rollup_node.stages.p2p.host.io.host_api import Direction, HostApi
from tests.support.p2p.hosts import RecordingHost


def test_the_host_implements_the_api() -> None:
    host: HostApi = RecordingHost(1)
    assert host.connections() == [] and host.connection(host.peer_id) is None
    assert host.intercept_peer(host.peer_id) is PeerDropReason.ITSELF


def test_directions_have_the_numbers_of_go_libp2p() -> None:
    assert [direction.value for direction in Direction] == [0, 1, 2]
