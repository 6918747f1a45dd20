"""Two thousand damaged inputs for each parser: a value or the parser's own error, nothing else."""

import random
from collections.abc import Callable

import pytest

from rollup_node.stages.p2p.addresses.ip import parse_ip
from rollup_node.stages.p2p.discv5 import crypto, messages, packets
from rollup_node.stages.p2p.discv5.enode import BootnodeError, parse_bootnode
from rollup_node.stages.p2p.discv5.enr import EnrError, decode_enr
from rollup_node.stages.p2p.discv5.packet_codec import PacketCodec
from rollup_node.stages.p2p.nat import nat_pmp, upnp
from tests.support.p2p.discv5_nodes import Discv5Simulation, endpoint, record_of, secret_of, seeded
from tests.support.p2p.fuzz import damaged

COUNT = 2_000
RECORD = record_of("fuzz")
OWN = crypto.node_id(crypto.public_key(secret_of("fuzz")))
GATEWAY = parse_ip("127.0.0.1")
NODES = messages.encode(messages.Nodes(b"12345678", 1, (RECORD.raw, RECORD.raw)))
SEARCH = b"HTTP/1.1 200 OK\r\nST: x\r\nLOCATION: http://127.0.0.1:80/d.xml\r\n\r\n"
DESCRIPTION = (
    b"<root><URLBase>http://127.0.0.1:80</URLBase><service><serviceType>urn:schemas-upnp-org:service:"
    b"WANIPConnection:1</serviceType><controlURL>/c</controlURL></service></root>"
)
SOAP_FAULT = b"<Envelope><Body><Fault><errorCode>725</errorCode></Fault></Body></Envelope>"


def _parse_text(raw: bytes) -> object:
    return parse_bootnode(raw.decode("latin-1"))


PARSERS: dict[str, tuple[Callable[[bytes], object], bytes, type[Exception]]] = {
    "record": (decode_enr, RECORD.raw, EnrError),
    "bootnode": (_parse_text, RECORD.text.encode(), BootnodeError),
    "message": (messages.decode, NODES, messages.MessageError),
    "pmp address": (nat_pmp.parse_external_address, bytes((0, 128)) + bytes(10), nat_pmp.NatPmpError),
    "search": (lambda raw: upnp.parse_search_response(raw, GATEWAY), SEARCH, upnp.UpnpError),
    "description": (lambda raw: upnp.parse_description(raw, "http://127.0.0.1:80/d.xml"), DESCRIPTION, upnp.UpnpError),
    "call": (upnp.parse_response, SOAP_FAULT, upnp.UpnpError),
}


@pytest.mark.parametrize("name", PARSERS)
def test_damaged_inputs(name: str) -> None:
    parse, good, error = PARSERS[name]
    rng = random.Random(name)
    parse_or_error(parse, good, error)
    for _ in range(COUNT):
        parse_or_error(parse, damaged(rng, good), error)


def parse_or_error(parse: Callable[[bytes], object], raw: bytes, error: type[Exception]) -> None:
    try:
        parse(raw)
    except error:
        return


def test_damaged_packets_under_the_header_mask() -> None:
    rng = random.Random("packets")
    header = packets.handshake_header(
        OWN, OWN, bytes(12), bytes(16), signature=bytes(64), ephemeral_key=bytes(33), record=RECORD.raw
    )
    for _ in range(COUNT):
        unmasked = damaged(rng, header.data[16:] + bytes(40))
        parse_or_error(
            lambda raw: packets.decode(raw, OWN),
            packets.PacketHeader(OWN, bytes(16), bytes(16) + unmasked).packet(),
            packets.PacketError,
        )


def test_damaged_datagrams_of_a_known_node_and_of_a_stranger(network: Discv5Simulation) -> None:
    one, two = network.add("one", endpoint("127.0.0.1"), peers_wanted=False), network.add("two", endpoint("127.0.0.2"))
    two.node.add_bootnodes([one.contact])
    network.run(2)
    rng = random.Random("datagrams")
    sent = [sending.datagram for sender, sending in network.log if sender == two.endpoint]
    stranger = PacketCodec(secret_of("stranger"), seeded("stranger"))
    good = [*sent, stranger.encode_random(one.record.node_id).datagram]
    for number in range(COUNT):
        network.now += 0.02
        network.inject(two.endpoint, damaged(rng, good[number % len(good)]), one.endpoint)
    assert sum(one.node.drops.values()) > COUNT / 2
    assert len(one.node.codec.sessions) == 1
    network.run(200)
    assert two.record.node_id in one.live_ids
