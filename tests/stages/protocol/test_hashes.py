"""Payload hashes, withdrawals and output roots."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol import hashes, headers
from rollup_node.stages.protocol.hex_encoding import HexError
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import EMPTY_ROOT, ordered_root
from rollup_node.stages.protocol.payloads import ExecutionPayload

PAYLOAD = ExecutionPayload(
    parent_hash=b"\x01" * 32,
    fee_recipient=b"\x02" * 20,
    state_root=b"\x03" * 32,
    receipts_root=b"\x04" * 32,
    logs_bloom=bytes(256),
    prev_randao=b"\x05" * 32,
    block_number=9,
    gas_limit=30_000_000,
    gas_used=21_000,
    timestamp=1000,
    extra_data=b"",
    base_fee=7,
    block_hash=b"\x06" * 32,
    transactions=(b"\x7e\x01", b"\x02\x02"),
    withdrawals=False,
    blob_gas_used=None,
    excess_blob_gas=None,
    withdrawals_root=None,
    parent_beacon_root=None,
)
CANYON = {"withdrawals": True}
ECOTONE = CANYON | {"blob_gas_used": 0, "excess_blob_gas": 0, "parent_beacon_root": b"\x07" * 32}
ISTHMUS = ECOTONE | {"withdrawals_root": b"\x08" * 32}


@pytest.mark.parametrize(
    ("changes", "fields", "root", "requests"),
    [
        ({}, 16, None, None),
        (CANYON, 17, EMPTY_ROOT, None),
        (ECOTONE, 20, EMPTY_ROOT, None),
        (ISTHMUS, 21, b"\x08" * 32, headers.EMPTY_REQUESTS_HASH),
        (ISTHMUS | {"withdrawals_root": EMPTY_ROOT}, 21, EMPTY_ROOT, headers.EMPTY_REQUESTS_HASH),
    ],
)
def test_presence_decides_the_fields(
    changes: dict[str, Any], fields: int, root: bytes | None, requests: bytes | None
) -> None:
    payload = msgspec.structs.replace(PAYLOAD, **changes)
    header = hashes.payload_header(payload)
    assert (header.withdrawals_root, header.requests_hash) == (root, requests)
    assert sum(value is not None for value in msgspec.structs.astuple(header)) == fields
    assert header.transactions_root == ordered_root(payload.transactions)
    assert hashes.payload_block_hash(payload) == headers.header_hash(header)
    assert header.gas_used == 21_000 and header.mix_hash == payload.prev_randao


def test_withdrawals_root_of_a_real_block(shared_data: Path) -> None:
    block = json.loads((shared_data / "l1" / "op_service_blocks_post-shanghai-success_data.json").read_bytes())
    assert block["withdrawals"]
    assert hashes.withdrawals_root(block["withdrawals"]).hex() == block["withdrawalsRoot"][2:]
    assert hashes.withdrawals_root([]) == EMPTY_ROOT
    with pytest.raises(HexError):
        hashes.withdrawals_root([{"index": "0x1"}])


WORDS = st.binary(min_size=32, max_size=32)


def test_the_output_root_of_version_0() -> None:
    """[HSH18]"""
    state, storage, block = (bytes([each]) * 32 for each in (1, 2, 3))
    assert hashes.output_root(state, storage, block) == keccak256(bytes(32) + state + storage + block)


@given(st.integers(0, 2**64 - 1), st.dictionaries(st.integers(0, 2**64), WORDS, min_size=1, max_size=4))
def test_super_roots_do_not_depend_on_the_order(timestamp: int, outputs: dict[int, bytes]) -> None:
    """[HSH21]"""
    pairs = sorted(outputs.items())
    assert hashes.super_root(timestamp, pairs) == hashes.super_root(timestamp, reversed(pairs))
    preimage = hashes.super_preimage(timestamp, pairs)
    assert (preimage[0], int.from_bytes(preimage[1:9], "big")) == (1, timestamp)
    chains = [preimage[at : at + 64] for at in range(9, len(preimage), 64)]
    assert [(int.from_bytes(chain[:32], "big"), chain[32:]) for chain in chains] == pairs
