"""extraData by fork [SYS36 to SYS39]."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol import eip1559
from rollup_node.stages.protocol.config import ChainOpConfig
from rollup_node.stages.protocol.eip1559 import ExtraData, ExtraDataError
from rollup_node.stages.protocol.forks.rules import L2Rules

PLAIN = L2Rules()
HOLOCENE = L2Rules(eip1559_params=True)
JOVIAN = L2Rules(eip1559_params=True, min_base_fee=True)
CONSTANTS = ChainOpConfig(eip1559_elasticity=6, eip1559_denominator=50, eip1559_denominator_canyon=250)
U32 = st.integers(1, 2**32 - 1)


@given(U32, U32, st.none() | st.integers(0, 2**64 - 1))
def test_values_round_trip(denominator: int, elasticity: int, min_base_fee: int | None) -> None:
    extra = ExtraData(denominator, elasticity, min_base_fee)
    data = eip1559.encode_extra_data(extra.params, min_base_fee, CONSTANTS)
    assert eip1559.decode_extra_data(data, HOLOCENE if min_base_fee is None else JOVIAN) == extra


def test_zeros_become_the_constants_of_the_chain() -> None:
    assert eip1559.encode_extra_data(bytes(8), None, CONSTANTS).hex() == "00000000fa00000006"
    assert eip1559.encode_extra_data(bytes(8), 10**9, CONSTANTS).hex() == "01000000fa00000006000000003b9aca00"
    without = ChainOpConfig(6, 50, None)
    assert eip1559.encode_extra_data(bytes(8), None, without).hex() == "000000003200000006"
    assert eip1559.encode_extra_data(None, None, CONSTANTS) == b""


def test_extra_data_is_empty_before_holocene() -> None:
    assert eip1559.decode_extra_data(b"", PLAIN) == ExtraData() and ExtraData().params == bytes(8)
    with pytest.raises(ExtraDataError, match="must be empty"):
        eip1559.decode_extra_data(b"\0", PLAIN)


@pytest.mark.parametrize(
    ("data", "rules", "text"),
    [
        ("", HOLOCENE, "9 bytes, got 0"),
        ("00000000fa0000000600", HOLOCENE, "9 bytes, got 10"),
        ("01000000fa00000006", HOLOCENE, "version 0, got 1"),
        ("000000000000000006", HOLOCENE, "denominator"),
        ("00000000fa00000000", HOLOCENE, "elasticity"),
        ("00000000fa00000006", JOVIAN, "17 bytes, got 9"),
        ("00000000fa000000060000000000000000", JOVIAN, "version 1, got 0"),
    ],
)
def test_malformed_extra_data(data: str, rules: L2Rules, text: str) -> None:
    with pytest.raises(ExtraDataError, match=text):
        eip1559.decode_extra_data(bytes.fromhex(data), rules)
