"""Labels of a chain once its messages are verified [LB3, LB4, VR9]."""

import pytest

from rollup_node.stages.interop.labels import Labels, current_l1, labels
from rollup_node.stages.protocol.types import BlockId, L2BlockRef
from tests.support.interop.values import dependency_set, member

CONFIG = dependency_set(member(1), activation=1010)
GENESIS = CONFIG.chains[1].genesis.l2


def at(number: int) -> BlockId:
    return BlockId(number, b"%032d" % number)


def local(number: int) -> L2BlockRef:
    return L2BlockRef(at(number).hash, number, bytes(32), 1000 + number, at(0), 0)


@pytest.mark.parametrize(
    ("safe", "finalized", "verified", "final", "wanted"),
    [
        (9, 5, None, None, (at(9), at(5))),  # before the activation the chain's own count
        (9, 5, at(7), at(3), (at(9), at(5))),
        (10, 5, None, None, (at(5), at(5))),  # active, and nothing verified
        (20, 12, None, None, (GENESIS, GENESIS)),
        (20, 12, at(15), None, (at(15), GENESIS)),
        (20, 12, at(15), at(11), (at(15), at(11))),
        (20, 9, at(15), at(11), (at(15), at(9))),  # never above the chain's own
        (20, 12, at(15), at(14), (at(15), at(12))),
        (13, 12, at(15), at(11), (at(13), at(11))),
        (20, 9, at(15), None, (at(15), at(9))),
    ],
)
def test_labels(
    safe: int, finalized: int, verified: BlockId | None, final: BlockId | None, wanted: tuple[BlockId, BlockId]
) -> None:
    """[LB3, LB4]"""
    assert labels(CONFIG, 1, (local(safe), local(finalized)), verified, final) == Labels(*wanted)


def test_the_current_l1_block_is_that_of_the_slowest() -> None:
    """[VR9]"""
    assert current_l1(at(7), (at(9), at(8))) == at(7)
    assert current_l1(at(9), (at(9), at(8))) == at(8)
    assert current_l1(None, (at(9), at(8))) == at(8)
