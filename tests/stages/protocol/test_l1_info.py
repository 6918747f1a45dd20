"""L1 attributes in their four layouts [LIN1 to LIN16]."""

import pytest

from rollup_node.stages.protocol import l1_info
from rollup_node.stages.protocol.forks.rules import L1InfoFormat
from rollup_node.stages.protocol.l1_info import L1Info, L1InfoError

EXAMPLE = L1Info(5, 6, 7, b"\x08" * 32, 9, b"\x0a" * 20, b"\x0b" * 32, b"\x0c" * 32, *range(13, 19))


@pytest.mark.parametrize("layout", L1InfoFormat)
def test_info_round_trips(layout: L1InfoFormat) -> None:
    """In its own layout alone."""
    data = l1_info.encode_l1_info(EXAMPLE, layout)
    assert len(data) == l1_info.SIZES[layout]
    assert l1_info.encode_l1_info(l1_info.parse_l1_info(data, layout), layout) == data
    for other in set(L1InfoFormat) - {layout}:
        with pytest.raises(L1InfoError):
            l1_info.parse_l1_info(data, other)


@pytest.mark.parametrize("layout", L1InfoFormat)
def test_padding_must_be_zero(layout: L1InfoFormat) -> None:
    for at in (143,) if layout.packed else (4, 27, 36, 59, 132, 155, 164, 175):
        data = bytearray(l1_info.encode_l1_info(EXAMPLE, layout))
        data[at] = 1
        with pytest.raises(L1InfoError, match="batcher" if layout.packed else "bedrock"):
            l1_info.parse_l1_info(bytes(data), layout)
