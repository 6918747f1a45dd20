"""Gossip messages of blocks, against messages that op-alloy encoded; their SSZ: layout, offsets, malformed bytes."""

from typing import Any

import pytest

from rollup_node.stages.p2p.blocks import block_message, signing
from rollup_node.stages.p2p.blocks.block_message import SszError
from rollup_node.stages.p2p.encoding import snappy
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.secp256k1 import recover_address
from tests.support.p2p.blocks import block, chain_config

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


EXTRA_DATA_AT, TRANSACTIONS_AT, WITHDRAWALS_AT = 436, 504, 508


def decoded(data: bytes, version: int, root: bytes | None = None) -> ExecutionPayload:
    return block_message.decode_ssz(data, version, root).payload


@pytest.mark.parametrize("version", block_message.VERSIONS)
def test_layout(version: int) -> None:
    payload = block(
        version, 7, timestamp=9, extra_data=b"xy", transactions=(b"one", b"", b"three"), base_fee=(1 << 255) + 1
    )
    data = block_message.encode_ssz(payload, version)
    fixed = block_message.FIXED_SIZES[version]
    lists = b"xy" + b"".join(n.to_bytes(4, "little") for n in (12, 15, 15)) + b"onethree"
    assert data[fixed:] == lists
    assert data[:32] == payload.parent_hash and data[32:52] == payload.fee_recipient
    assert data[404:412] == (7).to_bytes(8, "little") and data[428:436] == (9).to_bytes(8, "little")
    assert int.from_bytes(data[EXTRA_DATA_AT:440], "little") == fixed
    assert data[440:472] == b"\x01" + bytes(30) + b"\x80" and data[472:504] == payload.block_hash
    assert int.from_bytes(data[TRANSACTIONS_AT:508], "little") == fixed + 2
    if version >= 2:
        assert int.from_bytes(data[WITHDRAWALS_AT:512], "little") == len(data)
    if version >= 3:
        assert data[512:528] == bytes(16)
    if version >= 4:
        assert data[528:560] == payload.withdrawals_root
    assert decoded(data, version, payload.parent_beacon_root) == payload


def with_number(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + value.to_bytes(4, "little") + data[at + 4 :]


@pytest.mark.fault("F51")
@pytest.mark.parametrize("version", block_message.VERSIONS)
def test_offsets_must_be_exact(version: int) -> None:
    payload = block(version)
    data, fixed = block_message.encode_ssz(payload, version), block_message.FIXED_SIZES[version]
    first = fixed + len(payload.extra_data)
    assert payload.transactions
    bad = [
        data[: fixed - 1],
        b"",
        with_number(data, EXTRA_DATA_AT, fixed + 1),
        with_number(data, EXTRA_DATA_AT, fixed - 4),
        with_number(data, TRANSACTIONS_AT, fixed - 1),
        with_number(data, TRANSACTIONS_AT, fixed + 33),
        with_number(data, TRANSACTIONS_AT, len(data) + 1),
        with_number(data, TRANSACTIONS_AT, 0xFFFFFFFF),
        with_number(data, first, 0),
        with_number(data, first, 6),
        with_number(data, first, 0xFFFFFFFC),
        with_number(data, first + 4, 7),
        with_number(data, first + 4, 0xFFFFFFFF),
    ]
    if version >= 2:
        bad += [with_number(data, WITHDRAWALS_AT, at) for at in (first - 1, len(data) + 1, len(data) - 1, 0)]
        bad += [data + bytes(43), data + bytes(17 * 44)]
        assert block_message.decode_ssz(data + bytes(2 * 44), version).withdrawal_count == 2
    for item in bad:
        with pytest.raises(SszError):
            block_message.decode_ssz(item, version)


def test_the_number_of_transactions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert block_message.MAX_TRANSACTIONS == 1 << 20
    most = 1000
    monkeypatch.setattr(block_message, "MAX_TRANSACTIONS", most)
    empty = block_message.encode_ssz(block(1, transactions=()), 1)
    table = (4 * most).to_bytes(4, "little") * most
    assert len(decoded(empty + table, 1).transactions) == most
    with pytest.raises(SszError, match="1001 transactions"):
        block_message.decode_ssz(empty + (4 * most + 4).to_bytes(4, "little") * (most + 1), 1)
    with pytest.raises(SszError, match="1001 transactions"):
        block_message.encode_list([b""] * (most + 1))


@pytest.mark.parametrize(
    ("version", "lacking"),
    [
        (2, {"withdrawals": False}),
        (3, {"blob_gas_used": None}),
        (3, {"excess_blob_gas": None}),
        (4, {"withdrawals_root": None}),
        (1, {"extra_data": bytes(33)}),
    ],
)
def test_a_payload_must_have_the_fields_of_its_version(version: int, lacking: dict[str, Any]) -> None:
    with pytest.raises(SszError):
        block_message.encode_ssz(block(version, **lacking), version)
