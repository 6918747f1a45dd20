"""Two thousand damaged inputs for each parser of gossip, blocks, requests and NAT gateways, of which each has a result
or the parser's own error; and a damaged peer store never keeps a node from starting."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rollup_node.stages.io.files.sqlite_file import StoreError
from rollup_node.stages.p2p.addresses.multiaddr import tcp_multiaddr
from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.blocks.signing import UnsafeBlockSigners
from rollup_node.stages.p2p.blocks.ssz import SszError
from rollup_node.stages.p2p.blocks.validation import BlockValidator
from rollup_node.stages.p2p.discv5.enode import BootnodeError, parse_bootnode
from rollup_node.stages.p2p.encoding import snappy, varint
from rollup_node.stages.p2p.encoding.snappy import SnappyFailure
from rollup_node.stages.p2p.gossipsub.message_cache import ValidationResult
from rollup_node.stages.p2p.gossipsub.rpc import (
    ControlMessage,
    IHave,
    Prune,
    PubsubMessage,
    Rpc,
    RpcDecodeError,
    Subscription,
    decode_rpc,
    encode_rpc,
)
from rollup_node.stages.p2p.identity.peer_id import NetworkIdentity
from rollup_node.stages.p2p.nat import nat_pmp, upnp
from rollup_node.stages.p2p.nat.nat_pmp import NatPmpError, TransportProtocol
from rollup_node.stages.p2p.nat.upnp import UpnpError
from rollup_node.stages.p2p.reqresp import payload_by_number
from rollup_node.stages.p2p.reqresp.payload_by_number import ErrorResponse, RequestFailed
from rollup_node.stages.p2p.storage.io.peerstore import PeerStore
from tests.support.p2p.blocks import CHAIN_ID, GENESIS_TIME, LAST_FORK, SIGNER, block, chain_config, signed
from tests.support.p2p.fuzz import damaged

COUNT = 2_000
CONFIGS = {version: chain_config(LAST_FORK[version]) for version in block_message.VERSIONS}
Parser = Callable[[bytes], object]


def accepting_errors(parse: Callable[[bytes], object], *errors: type[Exception]) -> Parser:
    """Return the parser, whose own errors count as a result."""

    def parse_or_none(raw: bytes) -> object:
        try:
            return parse(raw)
        except errors:
            return None

    return parse_or_none


def signed_part(version: int) -> bytes:
    """Return the signed part of a block of a version."""
    return block_message.encode_signed_part(block(version, transactions=(b"\x02" * 50, b"\x02" * 9)), version)


def block_validator(version: int) -> Parser:
    """Validate a block with a valid signature."""
    signers = UnsafeBlockSigners()
    signers.update(SIGNER.address, 0.0)
    validator = BlockValidator(CONFIGS[version], signers)

    def validate(part: bytes) -> object:
        content = SIGNER.sign(CHAIN_ID, part) + part
        result = validator.validate(version, content, GENESIS_TIME + 2, 0.0)
        assert result.result is not ValidationResult.ACCEPT or part == signed_part(version)
        return result

    return validate


def encoded_response(version: int) -> bytes:
    return payload_by_number.encode_block(CONFIGS[version], block(version))


def response_parser(version: int) -> Parser:
    def read(raw: bytes) -> object:
        response = payload_by_number.decode_response(CONFIGS[version], 1, raw)
        return None if isinstance(response, ErrorResponse | RequestFailed) else response.payload.block_number == 1

    return read


def snappy_parser(decompress: Callable[[bytes], bytes | SnappyFailure]) -> Parser:
    def read(raw: bytes) -> object:
        result = decompress(raw)
        assert isinstance(result, SnappyFailure) or len(result) <= snappy.MAX_BYTES
        return result

    return read


RPC = encode_rpc(
    Rpc(
        [Subscription("/t", True)],
        [PubsubMessage("/t", b"some block")],
        ControlMessage([IHave("/t", [b"a" * 20] * 3)], [b"b" * 20], ["/t"], [Prune("/t", 60)], [b"c" * 20]),
    )
)
NAT_PMP_MAPPING = bytes((0, 130, 0, 0)) + bytes(4) + b"\x24\x06\x24\x06" + bytes(4)
UPNP_EXTERNAL_IP = b"<Envelope><Body><R><NewExternalIPAddress>192.0.2.1</NewExternalIPAddress></R></Body></Envelope>"
ENODE = f"enode://{'ab' * 64}@127.0.0.1:1?discport=2".encode()
CONTENT = signed(block(4, transactions=(b"\x02" * 500,)), 4)
PARSERS: dict[str, tuple[Parser, bytes]] = {
    "gossip": (accepting_errors(decode_rpc, RpcDecodeError), RPC),
    "snappy": (snappy_parser(snappy.decompress), snappy.compress(CONTENT)),
    "framed snappy": (snappy_parser(snappy.decompress_framed), snappy.compress_framed(CONTENT)),
    **{
        f"block {version}": (
            accepting_errors(lambda raw, version=version: block_message.decode_signed_part(raw, version), SszError),  # type: ignore[misc]
            signed_part(version),
        )
        for version in block_message.VERSIONS
    },
    **{
        f"response {version}": (response_parser(version), encoded_response(version))
        for version in block_message.VERSIONS
    },
    "request": (payload_by_number.decode_request, payload_by_number.encode_request(7)),
    "varint": (accepting_errors(varint.decode, varint.VarintError), varint.encode(1 << 40)),
    "padded varint": (accepting_errors(varint.decode_protobuf, varint.VarintError), varint.encode(1 << 62)),
    "pmp mapping": (
        accepting_errors(lambda raw: nat_pmp.parse_mapping(raw, TransportProtocol.TCP, 9222), NatPmpError),
        NAT_PMP_MAPPING,
    ),
    "upnp address": (accepting_errors(upnp.parse_external_ip, UpnpError), UPNP_EXTERNAL_IP),
    "enode": (accepting_errors(lambda raw: parse_bootnode(raw.decode("latin-1")), BootnodeError), ENODE),
}


@pytest.mark.fault("F51")
@pytest.mark.parametrize("name", PARSERS)
def test_damaged_inputs(name: str) -> None:
    parse, good = PARSERS[name]
    chance = random.Random(name)
    parse(good)
    for _ in range(COUNT):
        parse(damaged(chance, good))


@pytest.mark.parametrize("version", block_message.VERSIONS)
def test_damaged_blocks_with_a_valid_signature(version: int) -> None:
    """As a malicious sequencer could send them."""
    validate, good, chance = block_validator(version), signed_part(version), random.Random(version)
    for _ in range(COUNT // 10):
        validate(damaged(chance, good))


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
            store.addresses(peer), store.scores(peer), store.metadata(peer), store.identify_record(peer)
        store.collect_garbage()
        store.close()
        opened += 1
    assert opened > 20
