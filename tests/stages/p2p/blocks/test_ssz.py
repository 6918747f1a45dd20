"""SSZ of execution payloads: layout, offsets, malformed bytes."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.p2p.blocks import ssz
from rollup_node.stages.p2p.blocks.ssz import FIXED_SIZES, SszError
from rollup_node.stages.protocol.block_refs import payload_of_header
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.tools.recorded.encoded_blocks import decode_header
from tests.support.p2p.blocks import block

VERSIONS = sorted(FIXED_SIZES)
EXTRA_DATA_AT, TRANSACTIONS_AT, WITHDRAWALS_AT = 436, 504, 508


def decoded(data: bytes, version: int, root: bytes | None = None) -> ExecutionPayload:
    return ssz.decode(data, version, root).payload


@pytest.mark.parametrize("version", VERSIONS)
def test_layout(version: int) -> None:
    payload = block(
        version, 7, timestamp=9, extra_data=b"xy", transactions=(b"one", b"", b"three"), base_fee=(1 << 255) + 1
    )
    data = ssz.encode(payload, version)
    fixed = FIXED_SIZES[version]
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


@settings(max_examples=60)
@given(
    st.sampled_from(VERSIONS),
    st.binary(max_size=32),
    st.lists(st.binary(max_size=40), max_size=8),
    st.integers(0, (1 << 64) - 1),
    st.integers(0, (1 << 256) - 1),
)
def test_round_trip(version: int, extra: bytes, transactions: list[bytes], number: int, base_fee: int) -> None:
    payload = block(
        version,
        extra_data=extra,
        transactions=tuple(transactions),
        block_number=number,
        gas_used=number,
        base_fee=base_fee,
    )
    data = ssz.encode(payload, version)
    assert ssz.decode(data, version, payload.parent_beacon_root) == (payload, 0)


def with_number(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + value.to_bytes(4, "little") + data[at + 4 :]


@pytest.mark.fault("F51")
@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_must_be_exact(version: int) -> None:
    payload = block(version)
    data, fixed = ssz.encode(payload, version), FIXED_SIZES[version]
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
        assert ssz.decode(data + bytes(2 * 44), version).withdrawal_count == 2
    for item in bad:
        with pytest.raises(SszError):
            ssz.decode(item, version)


def test_the_number_of_transactions_is_bounded() -> None:
    empty = ssz.encode(block(1, transactions=()), 1)
    most = ssz.MAX_TRANSACTIONS
    table = (4 * most).to_bytes(4, "little") * most
    assert len(decoded(empty + table, 1).transactions) == most
    with pytest.raises(SszError, match="1048577 transactions"):
        ssz.decode(empty + (4 * most + 4).to_bytes(4, "little") * (most + 1), 1)
    with pytest.raises(SszError, match="1048577 transactions"):
        ssz.encode_list([b""] * (most + 1))


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
        ssz.encode(block(version, **lacking), version)


def test_real_blocks(shared_data: Path) -> None:
    for item in json.loads((shared_data / "op_sepolia_replay" / "l2_blocks.json").read_bytes()):
        header = decode_header(bytes.fromhex(item["header_rlp"]))
        transactions = tuple(bytes.fromhex(entry) for entry in item["txs"])
        payload = payload_of_header(header, bytes.fromhex(item["hash"][2:]), transactions)
        data = ssz.encode(payload, 3)
        assert decoded(data, 3, payload.parent_beacon_root) == payload
