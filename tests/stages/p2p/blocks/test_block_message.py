"""Gossip messages of blocks, against messages that op-alloy encoded."""

import pytest

from rollup_node.stages.p2p.blocks import block_message, signing
from rollup_node.stages.p2p.blocks.ssz import SszError
from rollup_node.stages.p2p.encoding import snappy
from rollup_node.stages.protocol.secp256k1 import recover_address
from tests.support.p2p.blocks import SIGNER, block, chain_config

# Signed messages of all versions from tests of op-alloy (crate op-alloy-rpc-types-engine, envelope.rs).
OP_ALLOY_MESSAGES = {
    1: (
        "bd04f043128457c6ccf35128497167442bcc0f8cce78cda8b366e6a12e526d938d1e4c1046acffffbfc542a7e212bb7d80d3a4b2f84f7b"
        "196d935398a24eb84c519789b401000000fe0300fe0300fe0300fe0300fe0300fe0300a203000c4a8fd56621ad04fc0101067601008ce6"
        "0be0005b220117c32c0f3b394b346c2aa42cfa8157cd41f891aa0bec485a62fc010000",
        1725271882,
    ),
    2: (
        "c104f0433805080eb36c0b130a7cc1dc74c3f721af4e249aa6f61bb89d1557143e971bb738a3f3b98df7c457e74048e9d2d7e5cd82bb45"
        "e3760467e2270e9db86d1271a700000000fe0300fe0300fe0300fe0300fe0300fe0300a203000c6b89d46525ad000205067201009cda69"
        "cb5b9b73fc4eb2458b37d37f04ff507fe6c9cd2ab704a05ea9dae3cd61760002000000020000",
        1708427627,
    ),
    3: (
        "f104f0434442b9eb38b259f5b23826e6b623e829d2fb878dac70187a1aecf42a3f9bedfd29793d1fcb5822324be0d3e12340a95855553a"
        "65d64b83e5579dffb31470df5d010000006a03000412346a1d00fe0100fe0100fe0100fe0100fe0100fe01004201000cc588d465219504"
        "100201067601007cfece77b89685f60e3663b6e0faf2de0734674eb91339700c4858c773a8ff921e014401043e0100",
        1708427461,
    ),
    4: (
        "9105f043cee25401b6853202950d1d8a082f31a80c4fef5782c049a731f5d104b1b9b9aa7618605b420438ae98b44c8aaaebd482854473"
        "c2ae57c079286bb634bece5210000000006a03000412346a1d00fe0100fe0100fe0100fe0100fe0100fe01004201000c5766d267219504"
        "30020106f6010001440104b60100049876",
        1741842007,
    ),
}


@pytest.mark.parametrize("version", OP_ALLOY_MESSAGES)
def test_messages_of_other_implementations(version: int) -> None:
    text, timestamp = OP_ALLOY_MESSAGES[version]
    content = snappy.decompress(bytes.fromhex(text))
    assert isinstance(content, bytes)
    signature, part = block_message.split_signature(content)
    decoded = block_message.decode_signed_part(part, version)
    assert decoded.payload.timestamp == timestamp and decoded.withdrawal_count == 0
    assert block_message.encode_signed_part(decoded.payload, version) == part
    encoded = block_message.encode_message(signature, part)
    assert snappy.decompress(encoded) == content
    digest = signing.signing_hash(10, signing.payload_hash(part))
    assert recover_address(digest, signature) is not None
    for other in set(OP_ALLOY_MESSAGES) - {version}:
        with pytest.raises(SszError):
            block_message.decode_signed_part(part, other)


def test_signing_hash_of_other_implementations() -> None:
    expected = "44a0e2b1aba1aae1771eddae1dcd2ad18a8cdac8891517153f03253e49d3f206"
    assert signing.signing_hash(10, signing.payload_hash(b"\x99" * 32)).hex() == expected


@pytest.mark.parametrize("version", block_message.VERSIONS)
def test_round_trip(version: int) -> None:
    payload = block(version)
    part = block_message.encode_signed_part(payload, version)
    signature = SIGNER.sign(901, part)
    message = block_message.encode_message(signature, part)
    content = snappy.decompress(message)
    assert isinstance(content, bytes)
    assert block_message.split_signature(content) == (signature, part)
    assert block_message.decode_signed_part(part, version).payload == payload
    assert part.startswith(b"\x06" * 32) == block_message.has_beacon_root(version)


def test_topics() -> None:
    assert block_message.block_topics(10) == {
        "/optimism/10/0/blocks": 1,
        "/optimism/10/1/blocks": 2,
        "/optimism/10/2/blocks": 3,
        "/optimism/10/3/blocks": 4,
    }


@pytest.mark.parametrize(
    ("fork", "version"), [("regolith", 1), ("canyon", 2), ("ecotone", 3), ("isthmus", 4), ("jovian", 4)]
)
def test_version_by_time(fork: str, version: int) -> None:
    config = chain_config(fork)
    assert block_message.version_at(config, config.genesis.l2_time) == version
    assert block_message.version_at(config, config.genesis.l2_time - 1) == 1


def test_a_payload_without_beacon_root_cannot_be_encoded() -> None:
    with pytest.raises(SszError, match="no parent beacon root"):
        block_message.encode_signed_part(block(3, parent_beacon_root=None), 3)
    with pytest.raises(SszError, match="fewer than a beacon root"):
        block_message.decode_signed_part(bytes(31), 3)
