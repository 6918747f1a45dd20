"""Our own record."""

from rollup_node.stages.p2p.addresses.ip import parse_ip
from rollup_node.stages.p2p.discv5.enr import OpStackEntry, decode_enr
from rollup_node.stages.p2p.discv5.local_enr import AdvertisedEndpoint, LocalEnr
from tests.support.p2p.discv5_nodes import endpoint, secret_of

SECRET = secret_of("local")
ADVERTISED = AdvertisedEndpoint(901, parse_ip("127.0.0.1"), 9222, 9223)


def test_the_record_has_the_advertised_endpoint() -> None:
    record = decode_enr(LocalEnr(SECRET, ADVERTISED, 5).enr.raw)
    assert record.seq == 5 and record.opstack == OpStackEntry(901, 0)
    assert record.udp(4) == endpoint("127.0.0.1", 9222) and record.tcp(4) == endpoint("127.0.0.1", 9223)
    assert sorted(record.pairs) == [b"id", b"ip", b"opstack", b"secp256k1", b"tcp", b"udp"]


def test_ports_are_omitted_without_an_address() -> None:
    record = LocalEnr(SECRET, AdvertisedEndpoint(901, None, 9222, 9222), 5).enr
    assert sorted(record.pairs) == [b"id", b"opstack", b"secp256k1"]
    no_port = LocalEnr(SECRET, AdvertisedEndpoint(901, parse_ip("127.0.0.1"), 9222, 0), 5).enr
    assert no_port.tcp(4) is None and no_port.udp(4) is not None


def test_ipv6_has_its_own_keys() -> None:
    record = LocalEnr(SECRET, AdvertisedEndpoint(901, parse_ip("::1"), 9222, 80), 5).enr
    assert record.udp(6) == endpoint("::1", 9222) and record.tcp(6) == endpoint("::1", 80)
    assert record.value(b"tcp6") == b"\x50"


def test_a_change_increments_the_sequence_number() -> None:
    local = LocalEnr(SECRET, ADVERTISED, 5)
    assert not local.update(ADVERTISED) and local.enr.seq == 5
    assert local.set_endpoint(endpoint("127.0.0.9", 7)) and local.enr.seq == 6
    assert local.enr.udp(4) == endpoint("127.0.0.9", 7)
    assert local.enr.tcp(4) == endpoint("127.0.0.9", 9223)
    assert not local.set_endpoint(endpoint("127.0.0.9", 7))


def test_the_sequence_number_rises_over_restarts() -> None:
    former = LocalEnr(SECRET, ADVERTISED, 100).enr
    assert LocalEnr(SECRET, ADVERTISED, 5000, former).enr is former
    other = AdvertisedEndpoint(902, ADVERTISED.ip, 9222, 9223)
    assert LocalEnr(SECRET, other, 5000, former).enr.seq == 5000
    assert LocalEnr(SECRET, other, 50, former).enr.seq == 101
