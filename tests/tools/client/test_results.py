"""Results of other shapes are an error that says where, and unknown fields none."""

from typing import Any

import pytest

pytest.importorskip("hexbytes", reason="web3 is not installed: pip install 'rollup-node[client]'")

from hexbytes import HexBytes

from rollup_node.tools.client.results import (
    BlockId,
    DependencySet,
    L2BlockRef,
    ResultError,
    SafeHead,
    SdmStatus,
    convert,
)

HASH = "0x" + "01" * 32
REF = {
    "hash": HASH,
    "number": 7,
    "parentHash": HASH,
    "timestamp": 1700000000,
    "l1origin": {"hash": HASH, "number": 3},
    "sequenceNumber": 2,
}


def test_a_reference_with_a_field_of_a_later_version() -> None:
    from web3.datastructures import AttributeDict

    found = convert(AttributeDict.recursive(REF | {"later": {"field": [1]}}), L2BlockRef)
    assert found == L2BlockRef(
        hash=HexBytes(HASH),
        number=7,
        parent_hash=HexBytes(HASH),
        timestamp=1700000000,
        l1_origin=BlockId(HexBytes(HASH), 3),
        sequence_number=2,
    )


def test_defaults_and_plain_types() -> None:
    assert convert({"dependencies": {"901": {}}}, DependencySet).override_message_expiry_window == 0
    found = {"postExecOptIn": True, "protocolActive": False, "effective": False}
    assert convert(found, SdmStatus) == SdmStatus(True, False, False)
    assert convert(found | {"activationTime": 7}, SdmStatus).activation_time == 7
    assert convert(None, type(None)) is None
    assert convert(True, bool) is True


@pytest.mark.parametrize(
    ("value", "shape", "error"),
    [
        ({**REF, "number": "0x7"}, L2BlockRef, r"Expected `int`, got `str` - at `\$.number`"),
        ({**REF, "hash": 5}, L2BlockRef, "HexBytes from int"),
        ({**REF, "hash": "0xzz"}, L2BlockRef, "unexpected result"),
        ({"l1Block": None, "safeHead": None}, SafeHead, "Expected `object`, got `null`"),
        ("yes", bool, "Expected `bool`"),
        ({}, type(None), "Expected `null`"),
    ],
)
def test_other_shapes(value: Any, shape: Any, error: str) -> None:
    with pytest.raises(ResultError, match=error):
        convert(value, shape)
