"""Payloads and attributes as JSON of the Engine API [ENG8, ENG9]."""

import json
from typing import Any

import msgspec
import pytest

from rollup_node.stages.protocol import engine_json
from rollup_node.stages.protocol.engine_json import PayloadError
from rollup_node.stages.protocol.payloads import PayloadAttributes
from tests.support.chains.sample_payload import SAMPLE_PAYLOAD

EXAMPLE = PayloadAttributes(1000, b"\x01" * 32, b"\x02" * 20, True, b"\x03" * 32, (b"\x7e",), True, 30, bytes(8), 0)


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
    assert engine_json.attributes_from_json(engine_json.attributes_to_json(EXAMPLE)) == EXAMPLE


def test_payloads_of_the_first_and_the_newest_form_round_trip() -> None:
    added = {"blob_gas_used": 5, "excess_blob_gas": 6, "withdrawals_root": b"\x08" * 32}
    newest = msgspec.structs.replace(SAMPLE_PAYLOAD, withdrawals=True, parent_beacon_root=b"\x07" * 32, **added)
    for payload in (SAMPLE_PAYLOAD, newest):
        result = json.loads(engine_json.encode_payload(payload))
        assert result == engine_json.payload_to_json(payload)
        assert engine_json.payload_from_json(result, payload.parent_beacon_root) == payload
        envelope = engine_json.envelope_to_json(payload)
        assert ("parentBeaconBlockRoot" in envelope) is (payload is newest)
        assert engine_json.envelope_from_json(envelope) == payload


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


def test_an_envelope_needs_a_payload() -> None:
    with pytest.raises(PayloadError, match="execution payload"):
        engine_json.envelope_from_json({"blockValue": "0x0"})
    with pytest.raises(PayloadError, match="parentBeaconBlockRoot"):
        engine_json.envelope_from_json({"parentBeaconBlockRoot": "0x0"})
