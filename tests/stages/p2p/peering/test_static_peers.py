"""The entries of `p2p.static` [NET9]."""

import pytest

from rollup_node.stages.p2p.addresses.multiaddr import tcp_multiaddr
from rollup_node.stages.p2p.identity.peer_id import NetworkIdentity
from rollup_node.stages.p2p.peering.static_peers import StaticPeerError, parse_static_peers
from tests.support.p2p.hosts import RecordingHost

OWN, OTHER = NetworkIdentity(b"\x01" * 32), NetworkIdentity(b"\x02" * 32)


def test_static_peers_need_address_port_and_id() -> None:
    text = RecordingHost(2).multiaddr.replace("/tcp/0", "/tcp/9222")
    assert parse_static_peers([text, " " + text], OWN.peer_id) == {
        OTHER.peer_id: [tcp_multiaddr("127.0.0.1", 9222)] * 2
    }
    assert parse_static_peers([text], OTHER.peer_id) == {}
    for wrong in ("/ip4/127.0.0.1/tcp/1", "nonsense", text.replace("/tcp/9222", ""), text.replace("tcp", "udp")):
        with pytest.raises(StaticPeerError, match=r"p2p\.static"):
            parse_static_peers([wrong], OWN.peer_id)
