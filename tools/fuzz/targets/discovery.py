"""Datagrams of discv5, node records, and answers of NAT gateways."""

import ipaddress
from hashlib import shake_128
from random import Random

from rollup_node.stages.p2p.addresses.ip import parse_ip
from rollup_node.stages.p2p.discv5 import crypto, messages, packets
from rollup_node.stages.p2p.discv5.contact import Endpoint
from rollup_node.stages.p2p.discv5.enode import BootnodeError, parse_bootnode
from rollup_node.stages.p2p.discv5.enr import EnrError, decode_enr
from rollup_node.stages.p2p.discv5.local_enr import AdvertisedEndpoint, LocalEnr
from rollup_node.stages.p2p.discv5.node import Discv5Node, Discv5Settings
from rollup_node.stages.p2p.discv5.packet_codec import PacketCodec
from rollup_node.stages.p2p.nat import nat_pmp, upnp
from rollup_node.stages.p2p.nat.nat_pmp import NatPmpError, TransportProtocol
from rollup_node.stages.p2p.nat.upnp import UpnpError
from rollup_node.tools.fuzz.targets.target import FuzzTarget, one_of

SECRET, STRANGER = b"\x07" * 32, b"\x08" * 32
CHAIN = 901
GATEWAY = parse_ip("127.0.0.1")
SENDER = Endpoint(ipaddress.ip_address("127.0.0.2"), 9222)


def _random(size: int) -> bytes:
    """Bytes in place of random ones, so that a run can be repeated."""
    return shake_128(b"fuzz").digest(size)


def _record(secret: bytes) -> LocalEnr:
    return LocalEnr(secret, AdvertisedEndpoint(CHAIN, GATEWAY, 9222, 9222), 1)


def record(data: bytes) -> object:
    """A signed node record."""
    found = decode_enr(data)
    return found.opstack is None, found.contact() is None


def bootnode(data: bytes) -> object:
    """A bootnode as a text: enr or enode."""
    return type(parse_bootnode(data.decode("utf-8", "replace"))).__name__


def message(data: bytes) -> object:
    """A decrypted message: what is read encodes to one that is read as the same."""
    found = messages.decode(data)
    assert messages.decode(messages.encode(found)) == found
    return type(found).__name__


def packet(data: bytes) -> object:
    """A packet whose header is damaged below its mask."""
    unmasked = packets.PacketHeader(OWN, data[: packets.IV_SIZE].ljust(packets.IV_SIZE, b"\0"), bytes(16) + data)
    return type(packets.decode(unmasked.packet(), OWN)).__name__


def datagrams(data: bytes) -> object:
    """A datagram of any sender to a node that runs, and what it sends then."""
    node = Discv5Node(Discv5Settings(CHAIN), SECRET, _record(SECRET), _random)
    node.receive_datagram(data, SENDER, 1000.0)
    node.tick(1001.0)
    outputs = node.take_outputs()
    return sorted(drop.name for drop in node.drops), [type(output).__name__ for output in outputs]


def nat_pmp_answer(data: bytes) -> object:
    """Answers of a gateway by NAT-PMP."""
    try:
        return str(nat_pmp.parse_external_address(data).version)
    except NatPmpError:
        return type(nat_pmp.parse_mapping(data, TransportProtocol.TCP, 9222)).__name__


def upnp_search(data: bytes) -> object:
    """The answer to a search, from which a URL on the gateway is taken."""
    found = upnp.parse_search_response(data, GATEWAY)
    assert found.lower().startswith("http://127.0.0.1")
    return "url"


def upnp_description(data: bytes) -> object:
    """A description of a gateway."""
    return type(upnp.parse_description(data, "http://127.0.0.1:80/d.xml")).__name__


def upnp_answer(data: bytes) -> object:
    """The answer to a call, with the external address."""
    return upnp.parse_external_ip(data).version


OWN = crypto.node_id(crypto.public_key(SECRET))
_STRANGER_RECORD = _record(STRANGER).enr
_HEADER = packets.handshake_header(
    *(_STRANGER_RECORD.node_id, OWN, bytes(12), bytes(16)),
    signature=bytes(64),
    ephemeral_key=crypto.public_key(b"\x09" * 32),
    record=_STRANGER_RECORD.raw,
)
_RANDOM_PACKET = PacketCodec(STRANGER, _random).encode_random(OWN).datagram
_HANDSHAKE = _HEADER.packet(bytes(40))
_MESSAGES = [
    messages.encode(messages.Nodes(b"12345678", 1, (_STRANGER_RECORD.raw, _STRANGER_RECORD.raw))),
    messages.encode(messages.Ping(b"12345678", 1)),
    messages.encode(messages.FindNode(b"12345678", (256, 255))),
]
_ENODE = f"enode://{'ab' * 64}@127.0.0.1:1?discport=2".encode()
_PMP_ADDRESS = bytes((0, 128, 0, 0)) + bytes(4) + bytes((192, 0, 2, 1))
_PMP_MAPPING = bytes((0, 130, 0, 0)) + bytes(4) + b"\x24\x06\x24\x06" + bytes(4)
_SEARCH = b"HTTP/1.1 200 OK\r\nST: x\r\nLOCATION: http://127.0.0.1:80/d.xml\r\n\r\n"
_SERVICE = b"<serviceType>urn:schemas-upnp-org:service:WANIPConnection:1</serviceType><controlURL>/c</controlURL>"
_DESCRIPTION = b"<root><URLBase>http://127.0.0.1:80</URLBase><service>" + _SERVICE + b"</service></root>"
_ADDRESS = b"<Envelope><Body><R><NewExternalIPAddress>192.0.2.1</NewExternalIPAddress></R></Body></Envelope>"
_FAULT = b"<Envelope><Body><Fault><errorCode>725</errorCode></Fault></Body></Envelope>"


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
    "nat-pmp": FuzzTarget(NAT, nat_pmp_answer, one_of([_PMP_ADDRESS, _PMP_MAPPING]), (NatPmpError,)),
    "upnp-search": FuzzTarget(NAT, upnp_search, one_of([_SEARCH]), (UpnpError,)),
    "upnp-description": FuzzTarget(NAT, upnp_description, one_of([_DESCRIPTION]), (UpnpError,), XML_TOKENS),
    "upnp-answer": FuzzTarget(NAT, upnp_answer, one_of([_ADDRESS, _FAULT]), (UpnpError,), XML_TOKENS),
}
"""The targets by name."""
