"""The peer store: addresses and records with expiry, bounds, bans and blocks [PST1]."""

from pathlib import Path

import msgspec
import pytest

from rollup_node.stages.p2p.addresses.ip import parse_ip, parse_subnet
from rollup_node.stages.p2p.addresses.multiaddr import parse_multiaddr, tcp_multiaddr
from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity
from rollup_node.stages.p2p.storage.io import peerstore
from rollup_node.stages.p2p.storage.io.peerstore import MAX_ADDRESSES, RECORD_TTL, PeerStore
from rollup_node.stages.p2p.storage.peer_record import (
    GossipScores,
    IdentifyRecord,
    PeerMetadata,
    PeerScores,
    ReqRespScores,
    TopicScores,
)
from tests.support.timing.manual_clock import ManualClock

OURS = NetworkIdentity(b"\x01" * 32)
PEER, OTHER = OURS.peer_id, NetworkIdentity(b"\x02" * 32).peer_id
HERE = parse_multiaddr("/ip4/192.0.2.1/tcp/9222")
SCORES = PeerScores(GossipScores(-4.5, TopicScores(1.0, 2.0, 3.0, 4.0), 0.5, 0.25), ReqRespScores(1.0, 2.0, 3.0))


def test_the_number_of_peers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peerstore, "MAX_PEERS", 10)
    monkeypatch.setattr(peerstore, "GC_CHANGES", 20)
    store = PeerStore(clock=ManualClock(1_700_000_000.0))
    for number in range(1000):
        store.add_addresses(bytes([number % 250, number // 250]), [HERE], 100.0)
        store.set_record(bytes([number % 250, number // 250]), PeerMetadata("", 901))
        assert len(store.peers()) <= 10 + 20


def test_addresses_of_a_peer_are_bounded() -> None:
    store = PeerStore()
    store.add_addresses(PEER, [HERE], 1000.0)
    store.add_addresses(PEER, [tcp_multiaddr("192.0.2.2", port) for port in range(1, 100)], 10.0)
    result = store.addresses(PEER)
    assert len(result) == MAX_ADDRESSES and result[0] == HERE


def test_records_expire() -> None:
    clock = ManualClock(1_700_000_000.0)
    store = PeerStore(clock=clock)
    assert store.record(PEER, PeerScores) is None
    records = (SCORES, PeerMetadata("enr:-abc", 901), IdentifyRecord("optimism", "ipfs/0.1.0", ("/a", "/b")))
    for record in records:
        store.set_record(PEER, record, 1200.0 if record is SCORES else RECORD_TTL)
    assert tuple(store.record(PEER, type(record)) for record in records) == records
    assert store.peers() == [PEER] and store.record(OTHER, PeerScores) is None
    clock.now += 1300
    assert store.record(PEER, PeerScores) is None and store.record(PEER, PeerMetadata) is not None
    clock.now += RECORD_TTL
    assert store.peers() == []
    store.collect_garbage()
    clock.now = 0.0
    assert store.peers() == []


def test_the_oldest_peers_beyond_the_bound_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(1_700_000_000.0)
    store = PeerStore(clock=clock)
    monkeypatch.setattr(peerstore, "MAX_PEERS", 10)
    for index in range(20):
        store.add_addresses(bytes([index]), [HERE], 1000.0 + index)
    store.set_record(b"\x00", SCORES, 5000.0)
    store.collect_garbage()
    assert store.peers() == [b"\x00", *(bytes([index]) for index in range(11, 20))]


def test_bans_and_blocks_survive_a_restart(tmp_path: Path) -> None:
    store = PeerStore(str(tmp_path / "peers"))
    gater = store.load_gater()
    gater.peer_bans[PEER] = 5e9
    gater.blocked_peers.add(OTHER)
    gater.blocked_ips.add(parse_ip("2001:db8::1"))
    gater.blocked_subnets.add(parse_subnet("10.0.0.0/8"))
    store.save_gater(gater)
    store.save_identity(OURS)
    store.close()
    again = PeerStore(str(tmp_path / "peers"))
    assert again.load_gater() == gater
    restricted = again.load_gater([parse_subnet("127.0.0.0/8")])
    assert restricted.allowed_networks == (parse_subnet("127.0.0.0/8"),)
    assert again.problem is None
    again.close()


def test_scores_have_the_form_of_the_rpc() -> None:
    assert msgspec.to_builtins(SCORES) == {
        "gossip": {
            "total": -4.5,
            "blocks": {
                "timeInMesh": 1.0,
                "firstMessageDeliveries": 2.0,
                "meshMessageDeliveries": 3.0,
                "invalidMessageDeliveries": 4.0,
            },
            "IPColocationFactor": 0.5,
            "behavioralPenalty": 0.25,
        },
        "reqResp": {"validResponses": 1.0, "errorResponses": 2.0, "rejectedPayloads": 3.0},
    }
