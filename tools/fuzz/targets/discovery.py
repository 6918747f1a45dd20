"""Datagrams of discv5, node records, and answers of NAT gateways."""

import ipaddress
from hashlib import shake_128
from random import Random

from rollup_node.stages.p2p.addresses.ip import IpAddress, parse_ip
from rollup_node.stages.p2p.addresses.peer_id import node_id
from rollup_node.stages.p2p.discv5 import messages, packets
from rollup_node.stages.p2p.discv5.calls import OutgoingPacket
from rollup_node.stages.p2p.discv5.enode import BootnodeError, parse_bootnode
from rollup_node.stages.p2p.discv5.enr import AdvertisedEndpoint, Endpoint, EnrError, LocalEnr, decode_enr
from rollup_node.stages.p2p.discv5.node import Discv5Node, Discv5Settings
from rollup_node.stages.p2p.discv5.packet_codec import PacketCodec
from rollup_node.stages.p2p.peering import nat_pmp, upnp
from rollup_node.stages.p2p.peering.nat_pmp import NatPmpError, TransportProtocol
from rollup_node.stages.p2p.peering.upnp import UpnpError
from rollup_node.stages.protocol import secp256k1
from rollup_node.tools.fuzz.targets.target import FuzzTarget, one_of

SECRET, STRANGER = b"\x07" * 32, b"\x08" * 32
REQUEST_ID = b"12345678"
CHAIN = 901
GATEWAY = parse_ip("127.0.0.1")
SENDER = Endpoint(ipaddress.ip_address("127.0.0.2"), 9222)


def _random(size: int) -> bytes:
    """Bytes in place of random ones, so that a run can be repeated."""
    return shake_128(b"fuzz").digest(size)


def _record(secret: bytes, ip: IpAddress = GATEWAY) -> LocalEnr:
    return LocalEnr(secret, AdvertisedEndpoint(CHAIN, ip, 9222, 9222), 1)


def record(data: bytes) -> object:
    """Return a signed node record."""
    enr = decode_enr(data)
    return enr.opstack is None, enr.contact() is None


def bootnode(data: bytes) -> object:
    """Return a bootnode as a text: enr or enode."""
    return type(parse_bootnode(data.decode("utf-8", "replace"))).__name__


def message(data: bytes) -> object:
    """Return a decrypted message: what is read encodes to one that is read as the same."""
    result = messages.decode(data)
    assert messages.decode(messages.encode(result)) == result
    return type(result).__name__


def packet(data: bytes) -> object:
    """Return a packet whose header is damaged below its mask."""
    unmasked = packets.PacketHeader(OWN, data[: packets.IV_SIZE].ljust(packets.IV_SIZE, b"\0"), bytes(16) + data)
    return type(packets.decode(unmasked.packet(), OWN)).__name__


def datagrams(data: bytes) -> object:
    """Return a datagram of any sender to a node that runs, and what it sends then."""
    node = Discv5Node(Discv5Settings(CHAIN), SECRET, _record(SECRET), _random)
    node.receive_datagram(data, SENDER, 1000.0)
    node.tick(1001.0)
    outputs = node.take_outputs()
    return sorted(drop.name for drop in node.drops), [type(output).__name__ for output in outputs]


def session(data: bytes) -> object:
    """Return a decrypted message of a node with which there is a session, while a request to it is under way.

    Of its id in place of REQUEST_ID. The first byte chooses what was requested."""
    node = Discv5Node(Discv5Settings(CHAIN), SECRET, _record(SECRET), (own := Random(1)).randbytes)
    record_of_peer = _record(STRANGER, SENDER.ip)
    peer = Discv5Node(Discv5Settings(CHAIN), STRANGER, record_of_peer, Random(2).randbytes)
    peer.peers_wanted, contact = False, node.local_enr.enr.contact()
    assert contact is not None
    peer.add_bootnodes([contact])
    peer.tick(1000.0)
    for _ in range(3):
        for sent in peer.take_outputs():
            if isinstance(sent, OutgoingPacket):
                node.receive_datagram(sent.datagram, SENDER, 1000.0)
        for sent in node.take_outputs():
            if isinstance(sent, OutgoingPacket):
                peer.receive_datagram(sent.datagram, contact.endpoint, 1000.0)
    node.add_known_nodes([record_of_peer.enr], 1000.0)
    if data[:1] > b"\x7f":
        node.start_lookup(own.randbytes(32), 1000.0)
    node.tick(1000.5)
    asked = {call.request_id for call in node.calls._active.values()}
    plaintext = data[1:].replace(REQUEST_ID, min(asked, default=REQUEST_ID))
    packet = peer.codec.encode_message(OWN, contact.endpoint, plaintext)
    assert packet is not None and asked
    node.take_outputs()
    node.receive_datagram(packet.datagram, SENDER, 1001.0)
    node.tick(1002.0)
    return sorted(drop.name for drop in node.drops), [type(output).__name__ for output in node.take_outputs()]


def nat_pmp_answer(data: bytes) -> object:
    """Answer of a gateway by NAT-PMP."""
    try:
        return str(nat_pmp.parse_external_address(data).version)
    except NatPmpError:
        return type(nat_pmp.parse_mapping(data, TransportProtocol.TCP, 9222)).__name__


def upnp_search(data: bytes) -> object:
    """Return the answer to a search, from which a URL on the gateway is taken."""
    search_response = upnp.parse_search_response(data, GATEWAY)
    assert search_response.lower().startswith("http://127.0.0.1")
    return "url"


def upnp_description(data: bytes) -> object:
    """Return a description of a gateway."""
    service = upnp.parse_description(data, "http://127.0.0.1:80/d.xml")
    assert service.control_url.lower().startswith("http://127.0.0.1")
    return "service"


def upnp_answer(data: bytes) -> object:
    """Return the answer to a call, with the external address."""
    return upnp.parse_external_ip(data).version


OWN = node_id(secp256k1.public_key(SECRET))
_STRANGER_RECORD = _record(STRANGER).enr
_NEIGHBOUR = _record(b"\x0a" * 32, ipaddress.ip_address("127.0.0.3")).enr
_HEADER = packets.handshake_header(
    *(_STRANGER_RECORD.node_id, OWN, bytes(12), bytes(16)),
    signature=bytes(64),
    ephemeral_key=secp256k1.public_key(b"\x09" * 32),
    record=_STRANGER_RECORD.raw,
)
_RANDOM_PACKET = PacketCodec(STRANGER, _random).encode_random(OWN).datagram
_HANDSHAKE = _HEADER.packet(bytes(40))
_MESSAGES = [
    messages.encode(messages.Nodes(REQUEST_ID, 1, (_STRANGER_RECORD.raw, _STRANGER_RECORD.raw))),
    messages.encode(messages.Ping(REQUEST_ID, 1)),
    messages.encode(messages.FindNode(REQUEST_ID, (256, 255))),
]
_ENODE = f"enode://{'ab' * 64}@127.0.0.1:1?discport=2".encode()
_PMP_ADDRESS = bytes((0, 128, 0, 0)) + bytes(4) + bytes((192, 0, 2, 1))
_PMP_MAPPING = bytes((0, 130, 0, 0)) + bytes(4) + b"\x24\x06\x24\x06" + bytes(4)
_SEARCH = b"HTTP/1.1 200 OK\r\nST: x\r\nLOCATION: http://127.0.0.1:80/d.xml\r\n\r\n"
_SERVICE = b"<serviceType>urn:schemas-upnp-org:service:WANIPConnection:1</serviceType><controlURL>/c</controlURL>"
_DESCRIPTION = b"<root><URLBase>http://127.0.0.1:80</URLBase><service>" + _SERVICE + b"</service></root>"
_ADDRESS = b"<Envelope><Body><R><NewExternalIPAddress>192.0.2.1</NewExternalIPAddress></R></Body></Envelope>"
_FAULT = b"<Envelope><Body><Fault><errorCode>725</errorCode></Fault></Body></Envelope>"


def _to_asked(chance: Random) -> bytes:
    number = chance.randrange
    result: messages.Discv5Message = chance.choice(
        (
            messages.Nodes(REQUEST_ID, number(4), (_STRANGER_RECORD.raw, _NEIGHBOUR.raw)[: number(3)]),
            messages.Ping(chance.randbytes(number(9)), number(1 << 20)),
            messages.Pong(REQUEST_ID, number(5), GATEWAY, number(1 << 16)),
            messages.FindNode(REQUEST_ID, tuple(number(260) for _ in range(number(5)))),
            messages.TalkRequest(REQUEST_ID, b"x", chance.randbytes(5)),
            messages.TalkResponse(REQUEST_ID, b"y"),
        )
    )
    return chance.choice((b"\x00", b"\xff")) + messages.encode(result)


def _datagram(chance: Random) -> bytes:
    return chance.choice((_HANDSHAKE, _RANDOM_PACKET))


XML_TOKENS = (b'"&lt;"', b'"&a;"', b"<!DOCTYPE a [<!ENTITY a 'b'>]>", b"1", b"99999999999999999999", b"true")
STRANGER_NODE, NAT = "any UDP sender", "NAT gateway"
TARGETS = {
    "enr": FuzzTarget(STRANGER_NODE, record, one_of([_STRANGER_RECORD.raw]), (EnrError,)),
    "bootnode": FuzzTarget("operator", bootnode, one_of([_STRANGER_RECORD.text.encode(), _ENODE]), (BootnodeError,)),
    "discv5-message": FuzzTarget(STRANGER_NODE, message, one_of(_MESSAGES), (messages.MessageError,)),
    "discv5-packet": FuzzTarget(STRANGER_NODE, packet, one_of([_HEADER.data[16:] + bytes(40)]), (packets.PacketError,)),
    "discv5-node": FuzzTarget(STRANGER_NODE, datagrams, _datagram),
    "discv5-session": FuzzTarget(STRANGER_NODE, session, _to_asked),
    "nat-pmp": FuzzTarget(NAT, nat_pmp_answer, one_of([_PMP_ADDRESS, _PMP_MAPPING]), (NatPmpError,)),
    "upnp-search": FuzzTarget(NAT, upnp_search, one_of([_SEARCH]), (UpnpError,)),
    "upnp-description": FuzzTarget(NAT, upnp_description, one_of([_DESCRIPTION]), (UpnpError,), XML_TOKENS),
    "upnp-answer": FuzzTarget(NAT, upnp_answer, one_of([_ADDRESS, _FAULT]), (UpnpError,), XML_TOKENS),
}
"""The targets by name."""
