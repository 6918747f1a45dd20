"""Payloads and attributes as JSON of the Engine API [ENG8, ENG9]."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.protocol import engine_json
from rollup_node.stages.protocol.engine_json import PayloadError
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes

U64 = st.integers(0, 2**64 - 1)
WORD = st.binary(min_size=32, max_size=32)
ADDRESS = st.binary(min_size=20, max_size=20)
TRANSACTIONS = st.lists(st.binary(max_size=20), max_size=3).map(tuple)
ATTRIBUTES = st.builds(
    PayloadAttributes,
    timestamp=U64,
    prev_randao=WORD,
    fee_recipient=ADDRESS,
    withdrawals=st.booleans(),
    parent_beacon_root=st.none() | WORD,
    transactions=TRANSACTIONS,
    no_tx_pool=st.booleans(),
    gas_limit=U64,
    eip1559_params=st.none() | st.binary(min_size=8, max_size=8),
    min_base_fee=st.none() | U64,
)
PAYLOADS = st.builds(
    ExecutionPayload,
    parent_hash=WORD,
    fee_recipient=ADDRESS,
    state_root=WORD,
    receipts_root=WORD,
    logs_bloom=st.binary(min_size=256, max_size=256),
    prev_randao=WORD,
    block_number=U64,
    gas_limit=U64,
    gas_used=U64,
    timestamp=U64,
    extra_data=st.binary(max_size=32),
    base_fee=st.integers(0, 2**256 - 1),
    block_hash=WORD,
    transactions=TRANSACTIONS,
    withdrawals=st.booleans(),
    blob_gas_used=st.none() | U64,
    excess_blob_gas=st.none() | U64,
    withdrawals_root=st.none() | WORD,
    parent_beacon_root=st.none() | WORD,
)
EXAMPLE = PayloadAttributes(1000, b"\x01" * 32, b"\x02" * 20, True, b"\x03" * 32, (b"\x7e",), True, 30, bytes(8), 0)


@settings(max_examples=40)
@given(ATTRIBUTES)
def test_attributes_round_trip(attributes: PayloadAttributes) -> None:
    text = engine_json.encode_attributes(attributes)
    assert json.loads(text) == engine_json.attributes_to_json(attributes)
    assert engine_json.attributes_from_json(json.loads(text)) == attributes


@settings(max_examples=40)
@given(PAYLOADS)
def test_payloads_round_trip(payload: ExecutionPayload) -> None:
    result = json.loads(engine_json.encode_payload(payload))
    assert result == engine_json.payload_to_json(payload)
    assert engine_json.payload_from_json(result, payload.parent_beacon_root) == payload
    assert engine_json.envelope_from_json(engine_json.envelope_to_json(payload)) == payload


def test_the_json_of_full_attributes() -> None:
    assert engine_json.attributes_to_json(EXAMPLE) == {
        "timestamp": "0x3e8",
        "prevRandao": "0x" + "01" * 32,
        "suggestedFeeRecipient": "0x" + "02" * 20,
        "withdrawals": [],
        "parentBeaconBlockRoot": "0x" + "03" * 32,
        "transactions": ["0x7e"],
        "noTxPool": True,
        "gasLimit": "0x1e",
        "eip1559Params": "0x0000000000000000",
        "minBaseFee": 0,
    }


def test_the_json_of_bedrock_attributes() -> None:
    bedrock = PayloadAttributes(1000, b"\x01" * 32, b"\x02" * 20, False, None, (), False, 30, None, None)
    assert sorted(engine_json.attributes_to_json(bedrock)) == [
        "gasLimit",
        "prevRandao",
        "suggestedFeeRecipient",
        "timestamp",
        "transactions",
    ]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"timestamp": 1000}, "timestamp: "),
        ({"prevRandao": "0x01"}, "prevRandao: "),
        ({"withdrawals": [{}]}, "withdrawals: expected an empty list"),
        ({"withdrawals": "no"}, "withdrawals: expected an empty list"),
        ({"transactions": "0x"}, "transactions: expected a list"),
        ({"transactions": [5]}, "transactions: "),
        ({"gasLimit": None}, "gasLimit: "),
        ({"eip1559Params": "0x00"}, "eip1559Params: "),
        ({"minBaseFee": "0x0"}, "minBaseFee: "),
        ({"minBaseFee": True}, "minBaseFee: "),
        ({"minBaseFee": 2**64}, "minBaseFee: "),
    ],
)
def test_attributes_name_the_bad_field(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(PayloadError, match=f"^{text}"):
        engine_json.attributes_from_json(engine_json.attributes_to_json(EXAMPLE) | changes)


@pytest.mark.parametrize("value", [None, [], "0x", 5])
def test_other_values_than_objects(value: Any) -> None:
    for read in (engine_json.attributes_from_json, engine_json.payload_from_json, engine_json.envelope_from_json):
        with pytest.raises(PayloadError, match="expected an object"):
            read(value)


def test_the_fields_are_in_the_order_of_the_payload_s_attributes() -> None:
    names = "".join(field.json_name for field in engine_json.PAYLOAD_FIELDS).lower()
    attributes = [name.replace("_", "") for name in ExecutionPayload.__struct_fields__]
    assert names.replace("basefeepergas", "basefee") == "".join(attributes).removesuffix("parentbeaconroot")


@pytest.mark.parametrize("name", ["parentHash", "logsBloom", "baseFeePerGas", "transactions", "blockHash"])
def test_payloads_name_the_missing_field(name: str) -> None:
    payload = msgspec.convert([b"\0" * 32, b"\0" * 20, *[b"\0" * 32] * 2, b"\0" * 256, b"\0" * 32, *[1] * 4, b"", 1,
                               b"\0" * 32, [], True, None, None, None, None], ExecutionPayload)  # fmt: skip
    result = engine_json.payload_to_json(payload)
    assert engine_json.payload_from_json(result) == payload
    del result[name]
    with pytest.raises(PayloadError, match=f"^{name}: "):
        engine_json.payload_from_json(result)


def test_an_envelope_needs_a_payload() -> None:
    with pytest.raises(PayloadError, match="execution payload"):
        engine_json.envelope_from_json({"blockValue": "0x0"})
    with pytest.raises(PayloadError, match="parentBeaconBlockRoot"):
        engine_json.envelope_from_json({"parentBeaconBlockRoot": "0x0"})


def test_recorded_attributes_round_trip(shared_data: Path) -> None:
    for path in sorted((shared_data / "l2_payloads").glob("*.json")):
        given_text = json.loads(path.read_bytes())["executing_payload"]
        result = engine_json.attributes_to_json(engine_json.attributes_from_json(given_text))
        assert result == {name: value for name, value in given_text.items() if value is not None}
