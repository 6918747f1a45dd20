"""L1 attributes in their four layouts [LIN1 to LIN16]."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.protocol import l1_info
from rollup_node.stages.protocol.forks.rules import L1InfoFormat
from rollup_node.stages.protocol.l1_info import L1Info, L1InfoError

U16, U32, U64, U256 = (st.integers(0, 2**bits - 1) for bits in (16, 32, 64, 256))
WORD = st.binary(min_size=32, max_size=32)
COMMON = {
    "number": U64,
    "timestamp": U64,
    "base_fee": U256,
    "block_hash": WORD,
    "sequence_number": U64,
    "batcher": st.binary(min_size=20, max_size=20),
}
PACKED = {"base_fee_scalar": U32, "blob_base_fee_scalar": U32, "blob_base_fee": U256}
OPERATOR = {"operator_fee_scalar": U32, "operator_fee_constant": U64}
FIELDS = {
    L1InfoFormat.BEDROCK: COMMON | {"overhead": WORD, "scalar": WORD},
    L1InfoFormat.ECOTONE: COMMON | PACKED,
    L1InfoFormat.ISTHMUS: COMMON | PACKED | OPERATOR,
    L1InfoFormat.JOVIAN: COMMON | PACKED | OPERATOR | {"da_footprint_gas_scalar": U16},
}
LAYOUTS = st.sampled_from(list(L1InfoFormat))
INFOS = LAYOUTS.flatmap(lambda layout: st.tuples(st.just(layout), st.builds(L1Info, **FIELDS[layout])))
EXAMPLE = L1Info(5, 6, 7, b"\x08" * 32, 9, b"\x0a" * 20)


@settings(max_examples=40)
@given(INFOS)
def test_info_round_trips(example: tuple[L1InfoFormat, L1Info]) -> None:
    layout, info = example
    data = l1_info.encode_l1_info(info, layout)
    assert len(data) == l1_info.SIZES[layout]
    assert l1_info.parse_l1_info(data, layout) == info
    for other in L1InfoFormat:
        if other is not layout:
            with pytest.raises(L1InfoError):
                l1_info.parse_l1_info(data, other)


@pytest.mark.parametrize("at", [4, 27, 36, 59, 132, 155, 164, 175])
def test_bedrock_padding_must_be_zero(at: int) -> None:
    data = bytearray(l1_info.encode_l1_info(EXAMPLE, L1InfoFormat.BEDROCK))
    data[at] = 1
    with pytest.raises(L1InfoError, match="bedrock"):
        l1_info.parse_l1_info(bytes(data), L1InfoFormat.BEDROCK)


@pytest.mark.parametrize("layout", list(L1InfoFormat)[1:])
def test_packed_batcher_padding_must_be_zero(layout: L1InfoFormat) -> None:
    data = bytearray(l1_info.encode_l1_info(EXAMPLE, layout))
    data[143] = 1
    with pytest.raises(L1InfoError, match="batcher"):
        l1_info.parse_l1_info(bytes(data), layout)
