"""The L1 block up to which all chains are derived and verified [VR9]."""

from rollup_node.stages.interop.labels import current_l1
from rollup_node.stages.protocol.types import BlockId


def at(number: int) -> BlockId:
    return BlockId(number, b"%032d" % number)


def test_the_current_l1_block_is_that_of_the_slowest() -> None:
    """[VR9]"""
    assert current_l1(at(7), (at(9), at(8))) == at(7)
    assert current_l1(at(9), (at(9), at(8))) == at(8)
    assert current_l1(None, (at(9), at(8))) == at(8)
