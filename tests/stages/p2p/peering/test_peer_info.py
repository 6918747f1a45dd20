"""The JSON forms of `opp2p_*`: addresses, node ids, networks, in order."""

import pytest

from rollup_node.stages.p2p.addresses.ip import parse_ip, parse_subnet
from rollup_node.stages.p2p.addresses.multiaddr import tcp_multiaddr
from rollup_node.stages.p2p.addresses.peer_id import (
    ED25519,
    SECP256K1,
    NetworkIdentity,
    PublicKey,
    node_id,
    peer_id_text,
)
from rollup_node.stages.p2p.peering import peer_info
from tests.support.p2p.hosts import RecordingHost

OURS = NetworkIdentity(bytes([1]) * 32)
OTHER = NetworkIdentity(bytes([2]) * 32)


def test_addresses_end_in_the_peer_id_and_are_listed_once() -> None:
    address = tcp_multiaddr("192.0.2.1", 9222)
    text = f"/ip4/192.0.2.1/tcp/9222/p2p/{peer_id_text(OURS.peer_id)}"
    assert peer_info.full_addresses(OURS.peer_id, [address, address]) == (text,)
    assert peer_info.full_addresses(OURS.peer_id, []) is None


def test_node_ids_are_those_of_discv5() -> None:
    assert peer_info.node_id_text(OURS.peer_id) == node_id(OURS.public_key.data).hex()
    assert peer_info.node_id_text(PublicKey(ED25519, bytes(32)).peer_id) == "00" * 32, "a key that is not secp256k1"
    assert peer_info.node_id_text(PublicKey(SECP256K1, b"\x09" * 33).peer_id) == "00" * 32, "no point of the curve"
    assert peer_info.node_id_text(b"\x12\x20" + bytes(32)) == "00" * 32, "a hash embeds no key"


def test_lists_are_sorted() -> None:
    assert peer_info.sorted_peers([OURS.peer_id, OTHER.peer_id]) == tuple(
        sorted(map(peer_id_text, (OURS.peer_id, OTHER.peer_id)))
    )
    assert peer_info.sorted_ips(map(parse_ip, ("::1", "10.0.0.10", "10.0.0.9"))) == ("10.0.0.9", "10.0.0.10", "::1")
    nets = peer_info.sorted_nets(map(parse_subnet, ("fd00::/8", "10.0.0.0/16", "10.0.0.0/8")))
    assert [net.IP for net in nets] == ["10.0.0.0", "10.0.0.0", "fd00::"] and nets[0] == peer_info.IpNet(
        "10.0.0.0", "/wAAAA=="
    )


OWN, STRANGER = NetworkIdentity(b"\x01" * 32), NetworkIdentity(b"\x02" * 32)


def test_static_peers_need_address_port_and_id() -> None:
    text = RecordingHost(2).multiaddr.replace("/tcp/0", "/tcp/9222")
    assert peer_info.parse_static_peers([text, " " + text], OWN.peer_id) == {
        STRANGER.peer_id: [tcp_multiaddr("127.0.0.1", 9222)] * 2
    }
    assert peer_info.parse_static_peers([text], STRANGER.peer_id) == {}
    for wrong in ("/ip4/127.0.0.1/tcp/1", "nonsense", text.replace("/tcp/9222", ""), text.replace("tcp", "udp")):
        with pytest.raises(peer_info.StaticPeerError, match=r"p2p\.static"):
            peer_info.parse_static_peers([wrong], OWN.peer_id)
