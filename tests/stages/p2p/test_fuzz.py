"""Two thousand damaged inputs for each parser of what peers, gateways and users send: a value or the parser's own
error, nothing else; and a damaged peer store never keeps a node from starting."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rollup_node.stages.io.files.sqlite_file import StoreError
from rollup_node.stages.p2p.addresses import peer_id
from rollup_node.stages.p2p.addresses.ip import parse_ip
from rollup_node.stages.p2p.addresses.multiaddr import (
    MultiaddrError,
    decode_multiaddr,
    parse_multiaddr,
    tcp_multiaddr,
)
from rollup_node.stages.p2p.addresses.peer_id import IdentityError, NetworkIdentity
from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.blocks.signing import UnsafeBlockSigners
from rollup_node.stages.p2p.blocks.ssz import SszError
from rollup_node.stages.p2p.blocks.validation import BlockValidator
from rollup_node.stages.p2p.discv5 import crypto, messages, packets
from rollup_node.stages.p2p.discv5.enode import BootnodeError, parse_bootnode
from rollup_node.stages.p2p.discv5.enr import EnrError, decode_enr
from rollup_node.stages.p2p.encoding import protobuf, snappy, varint
from rollup_node.stages.p2p.encoding.multistream import HEADER, Initiator, MultistreamError, Responder, encode_line
from rollup_node.stages.p2p.encoding.snappy import SnappyFailure
from rollup_node.stages.p2p.gossipsub import rpc
from rollup_node.stages.p2p.gossipsub.message_cache import ValidationResult
from rollup_node.stages.p2p.host import identify
from rollup_node.stages.p2p.nat import nat_pmp, upnp
from rollup_node.stages.p2p.nat.nat_pmp import NatPmpError, TransportProtocol
from rollup_node.stages.p2p.nat.upnp import UpnpError
from rollup_node.stages.p2p.reqresp import payload_by_number
from rollup_node.stages.p2p.storage.io.peerstore import PeerStore
from rollup_node.stages.p2p.storage.peer_record import IdentifyRecord, PeerMetadata, PeerScores
from rollup_node.stages.p2p.transport.noise import FrameDecoder, NoiseError, NoiseHandshake, NoiseKeys, encode_frame
from rollup_node.stages.p2p.transport.upgrader import UPGRADE_ERRORS, Upgrader
from rollup_node.stages.p2p.transport.yamux import YamuxError, YamuxSession
from rollup_node.stages.protocol import secp256k1
from tests.support.p2p.blocks import CHAIN_ID, GENESIS_TIME, LAST_FORK, SIGNER, block, chain_config, signed
from tests.support.p2p.discv5_nodes import record_of, secret_of
from tests.support.p2p.fuzz import damaged

COUNT = 2_000
FEW = COUNT // 10
CONFIGS = {version: chain_config(LAST_FORK[version]) for version in block_message.VERSIONS}
OURS = NetworkIdentity(b"\x01" * 32)
KEYS = NoiseKeys(b"\x03" * 32, b"\x04" * 32)
Parser = Callable[[bytes], object]


def signed_part(version: int) -> bytes:
    """Return the signed part of a block of a version."""
    return block_message.encode_signed_part(block(version, transactions=(b"\x02" * 50, b"\x02" * 9)), version)


def block_parser(version: int) -> Parser:
    """What is decoded is encoded to the same bytes, except withdrawals."""

    def parse(raw: bytes) -> None:
        decoded = block_message.decode_signed_part(raw, version)
        expected = raw[: len(raw) - 44 * decoded.withdrawal_count]
        assert block_message.encode_signed_part(decoded.payload, version) == expected

    return parse


def response_parser(version: int) -> Parser:
    def parse(raw: bytes) -> None:
        response = payload_by_number.decode_response(CONFIGS[version], 1, raw)
        assert response.payload is None or response.payload.block_number == 1

    return parse


def snappy_parser(decompress: Callable[[bytes], bytes | SnappyFailure]) -> Parser:
    def parse(raw: bytes) -> None:
        result = decompress(raw)
        assert isinstance(result, SnappyFailure) or len(result) <= snappy.MAX_BYTES

    return parse


def text_parser(parse: Callable[[str], object]) -> Parser:
    return lambda raw: parse(raw.decode("latin-1"))


def shake_hands(raw: bytes) -> None:
    for part in FrameDecoder().receive_data(raw):
        NoiseHandshake(OURS, KEYS, initiator=False).receive_message(part)


def under_the_header_mask(raw: bytes) -> object:
    return packets.decode(packets.PacketHeader(OWN, bytes(16), bytes(16) + raw).packet(), OWN)


OWN = crypto.node_id(secp256k1.public_key(secret_of("fuzz")))
RECORD = record_of("fuzz")
NODES = messages.encode(messages.Nodes(b"12345678", 1, (RECORD.raw, RECORD.raw)))
HANDSHAKE = packets.handshake_header(
    OWN, OWN, bytes(12), bytes(16), signature=bytes(64), ephemeral_key=bytes(33), record=RECORD.raw
)
HERE = parse_multiaddr("/ip4/192.0.2.1/tcp/9222").with_peer_id(OURS.peer_id)
LINES = encode_line(HEADER) + encode_line("/noise")
FIRST = encode_frame(NoiseHandshake(OURS, KEYS, initiator=True).first_message())
HELLO = identify.encode(OURS.public_key.encode(), [HERE], ["/a/1"], HERE, "optimism")
FRAMES = bytes.fromhex(
    "000100010000000100000000"
    + "000000000000000100000003616263"
    + "000200010000000000000007"
    + "000100040000000100000000"
)
CONTROL = rpc.ControlMessage(
    [rpc.IHave("/t", [b"a" * 20] * 3)], [b"b" * 20], ["/t"], [rpc.Prune("/t", 60)], [b"c" * 20]
)
RPC = rpc.encode_rpc(rpc.Rpc([rpc.Subscription("/t", True)], [rpc.PubsubMessage("/t", b"some block")], CONTROL))
CONTENT = signed(block(4, transactions=(b"\x02" * 500,)), 4)
GATEWAY, DESCRIPTION_URL = parse_ip("127.0.0.1"), "http://127.0.0.1:80/d.xml"
NAT_PMP_MAPPING = bytes((0, 130, 0, 0)) + bytes(4) + b"\x24\x06\x24\x06" + bytes(4)
SEARCH = b"HTTP/1.1 200 OK\r\nST: x\r\nLOCATION: http://127.0.0.1:80/d.xml\r\n\r\n"
DESCRIPTION = (
    b"<root><URLBase>http://127.0.0.1:80</URLBase><service><serviceType>urn:schemas-upnp-org:service:"
    b"WANIPConnection:1</serviceType><controlURL>/c</controlURL></service></root>"
)
SOAP_FAULT = b"<Envelope><Body><Fault><errorCode>725</errorCode></Fault></Body></Envelope>"
EXTERNAL_IP = b"<Envelope><Body><R><NewExternalIPAddress>192.0.2.1</NewExternalIPAddress></R></Body></Envelope>"
ENODE = f"enode://{'ab' * 64}@127.0.0.1:1?discport=2".encode()
PARSERS: dict[str, tuple[Parser, bytes, tuple[type[Exception], ...]]] = {
    "gossip": (rpc.decode_rpc, RPC, (rpc.RpcDecodeError,)),
    "snappy": (snappy_parser(snappy.decompress), snappy.compress(CONTENT), ()),
    "framed snappy": (snappy_parser(snappy.decompress_framed), snappy.compress_framed(CONTENT), ()),
    **{f"block {version}": (block_parser(version), signed_part(version), (SszError,)) for version in CONFIGS},
    **{
        f"response {version}": (response_parser(version), payload_by_number.encode_block(config, block(version)), ())
        for version, config in CONFIGS.items()
    },
    "request": (payload_by_number.decode_request, payload_by_number.encode_request(7), ()),
    "varint": (varint.decode, varint.encode(1 << 40), (varint.VarintError,)),
    "padded varint": (varint.decode_protobuf, varint.encode(1 << 62), (varint.VarintError,)),
    "protobuf": (protobuf.parse, HELLO, (protobuf.ProtobufError,)),
    "identify": (identify.decode, HELLO, (identify.IdentifyError,)),
    "public key": (peer_id.decode_public_key, OURS.public_key.encode(), (IdentityError,)),
    "peer id": (peer_id.validate_peer_id, OURS.peer_id, (IdentityError,)),
    "peer id as text": (
        text_parser(peer_id.parse_peer_id),
        peer_id.peer_id_text(OURS.peer_id).encode(),
        (IdentityError,),
    ),
    "address": (decode_multiaddr, HERE.encode(), (MultiaddrError,)),
    "address as text": (text_parser(parse_multiaddr), str(HERE).encode(), (MultiaddrError,)),
    "responder": (lambda raw: Responder("/noise".__eq__).receive_data(raw), LINES, (MultistreamError,)),
    "initiator": (lambda raw: Initiator(["/noise"]).receive_data(raw), LINES, (MultistreamError,)),
    "yamux": (lambda raw: YamuxSession(initiator=False).receive_data(raw), FRAMES, (YamuxError,)),
    "noise": (shake_hands, FIRST, (NoiseError,)),
    "upgrade": (lambda raw: Upgrader(OURS, KEYS, initiator=False).receive_data(raw), LINES + FIRST, UPGRADE_ERRORS),
    "record": (decode_enr, RECORD.raw, (EnrError,)),
    "bootnode": (text_parser(parse_bootnode), RECORD.text.encode(), (BootnodeError,)),
    "enode": (text_parser(parse_bootnode), ENODE, (BootnodeError,)),
    "message": (messages.decode, NODES, (messages.MessageError,)),
    "packet": (under_the_header_mask, HANDSHAKE.data[16:] + bytes(40), (packets.PacketError,)),
    "pmp address": (nat_pmp.parse_external_address, bytes((0, 128)) + bytes(10), (NatPmpError,)),
    "pmp mapping": (
        lambda raw: nat_pmp.parse_mapping(raw, TransportProtocol.TCP, 9222),
        NAT_PMP_MAPPING,
        (NatPmpError,),
    ),
    "upnp search": (lambda raw: upnp.parse_search_response(raw, GATEWAY), SEARCH, (UpnpError,)),
    "upnp description": (lambda raw: upnp.parse_description(raw, DESCRIPTION_URL), DESCRIPTION, (UpnpError,)),
    "upnp call": (upnp.parse_response, SOAP_FAULT, (UpnpError,)),
    "upnp address": (upnp.parse_external_ip, EXTERNAL_IP, (UpnpError,)),
}


@pytest.mark.fault("F51")
@pytest.mark.parametrize("name", PARSERS)
def test_damaged_inputs(name: str) -> None:
    parse, good, errors = PARSERS[name]
    chance, refused = random.Random(20), 0
    for data in (good, *(damaged(chance, good) for _ in range(FEW if name in ("noise", "upgrade") else COUNT))):
        try:
            parse(data)
        except errors:
            refused += data is not good
    assert refused or not errors


@pytest.mark.parametrize("version", block_message.VERSIONS)
def test_damaged_blocks_with_a_valid_signature(version: int) -> None:
    """As a malicious sequencer could send them."""
    good, chance, signers = signed_part(version), random.Random(version), UnsafeBlockSigners()
    signers.update(SIGNER.address, 0.0)
    validator = BlockValidator(CONFIGS[version], signers)
    for _ in range(FEW):
        part = damaged(chance, good)
        result = validator.validate(version, SIGNER.sign(CHAIN_ID, part) + part, GENESIS_TIME + 2, 0.0)
        assert result.result is not ValidationResult.ACCEPT or part == good


def test_a_damaged_peerstore_is_replaced_or_rejected(tmp_path: Path) -> None:
    path, chance = tmp_path / "peers.db", random.Random(3)
    identity = NetworkIdentity(b"\x01" * 32)
    store = PeerStore(str(path))
    store.save_identity(identity)
    for number in range(20):
        store.add_addresses(bytes([number]) * 38, [tcp_multiaddr("192.0.2.1", 9222)], 100.0)
    store.close()
    good = path.read_bytes()
    opened = 0
    for _ in range(60):
        for old in tmp_path.iterdir():
            old.unlink()
        data = bytearray(good)
        for _ in range(chance.randint(1, 40)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data[: chance.randrange(len(data))] if chance.random() < 0.3 else data)
        try:
            store = PeerStore(str(path))
        except StoreError as error:
            assert "p2p.peerstore.path" in str(error)
            continue
        store.load_gater()
        for peer in store.peers():
            store.addresses(peer)
            for kind in (PeerScores, PeerMetadata, IdentifyRecord):
                store.record(peer, kind)
        store.collect_garbage()
        store.close()
        opened += 1
    assert opened > 20
