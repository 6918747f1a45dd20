"""Hashes of attributes and payloads, and payloads that have another hash than they say."""

import json
from typing import Any, cast

import msgspec
import pytest

import rollup_node
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.engine_json import envelope_to_json, payload_to_json
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.payloads import payload_block_hash
from tests.support.chains.sample_payload import SAMPLE_PAYLOAD

ATTRIBUTES = rollup_node.PayloadAttributes(
    timestamp=1000,
    prev_randao=b"\x01" * 32,
    fee_recipient=b"\x02" * 20,
    withdrawals=True,
    parent_beacon_root=None,
    transactions=(b"\x7ea", b"\x02b"),
    no_tx_pool=True,
    gas_limit=30_000_000,
    eip1559_params=b"",
    min_base_fee=0,
)
PAYLOAD = msgspec.structs.replace(SAMPLE_PAYLOAD, block_hash=payload_block_hash(SAMPLE_PAYLOAD))
WITH_ROOT = msgspec.structs.replace(PAYLOAD, withdrawals=True, parent_beacon_root=b"\x09" * 32)
WITH_ROOT = msgspec.structs.replace(WITH_ROOT, block_hash=payload_block_hash(WITH_ROOT))


def test_the_hash_of_attributes_is_that_of_their_fields() -> None:
    fields: list[rlp.Item] = [b"\x03\xe8", b"\x01" * 32, b"\x02" * 20, b"\x01", [], [b"\x7ea", b"\x02b"], b"\x01"]
    fields += [(30_000_000).to_bytes(4, "big"), b"", b""]
    assert rollup_node.attributes_hash(ATTRIBUTES) == keccak256(rlp.encode(fields))


def test_an_output_root() -> None:
    parts = b"\x01" * 32, b"\x02" * 32, b"\x03" * 32
    assert rollup_node.output_root(*parts) == keccak256(bytes(32) + b"".join(parts))
    for wrong in (b"\x03" * 31, "0x" + "03" * 32, None):
        with pytest.raises(rollup_node.InputError, match=r"^block_hash: expected 32 bytes, got "):
            rollup_node.output_root(*parts[:2], cast(bytes, wrong))


@pytest.mark.parametrize("answer", [None, [], "0x"])
def test_what_is_no_object_is_a_data_error(answer: Any) -> None:
    """An endpoint gives null for a block that it does not have."""
    with pytest.raises(rollup_node.DataError, match=r"^payload: expected an object, got "):
        rollup_node.verify_payload(answer)


def test_a_payload_in_each_form() -> None:
    assert rollup_node.verify_payload(payload_to_json(PAYLOAD)) == PAYLOAD.block_hash
    assert rollup_node.verify_payload(envelope_to_json(WITH_ROOT)) == WITH_ROOT.block_hash
    alone = payload_to_json(WITH_ROOT)
    assert rollup_node.verify_payload(alone, WITH_ROOT.parent_beacon_root) == WITH_ROOT.block_hash


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"gasUsed": "0x1"}, "block 500 says that its hash is 0x"),
        ({"blockHash": "0x" + "00" * 32}, "its content has 0x"),
        ({"gasUsed": 1}, "gasUsed"),
        ({"transactions": None}, "transactions"),
        ({"executionPayload": []}, "expected an object"),
        ({"hash": "0x" + "00" * 32}, "payload: "),
    ],
)
def test_a_payload_that_is_wrong_is_a_data_error(change: dict[str, Any], text: str) -> None:
    payload = json.loads(json.dumps(payload_to_json(PAYLOAD))) | change
    with pytest.raises(rollup_node.DataError, match=text) as caught:
        rollup_node.verify_payload(payload)
    assert caught.value.rule == "HSH14"
