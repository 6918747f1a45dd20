"""Block references: their text, and how they are built from headers."""

from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, L1Block, L1BlockRef, L1Header, L2BlockRef

HASH, PARENT = b"\xab\xcd" + bytes(30), b"\x01" * 32
HEADER = L1Header(HASH, 7, PARENT, 84, ZERO_HASH, 7, None, None)


def test_references_print_number_and_beginning_of_the_hash() -> None:
    l2 = L2BlockRef(HASH, 9, PARENT, 18, BlockId(7, HASH), 2)
    for block, number in ((BlockId(7, HASH), 7), (HEADER.ref, 7), (l2, 9)):
        assert str(block) == f"{number}:0xabcd000000"


def test_ids_and_references_of_blocks() -> None:
    l2 = L2BlockRef(HASH, 9, PARENT, 18, BlockId(7, HASH), 2)
    assert l2.id == BlockId(9, HASH)
    assert HEADER.ref == L1BlockRef(HASH, 7, PARENT, 84)
    assert HEADER.ref.id == BlockId(7, HASH)
    assert L1Block(HEADER, (), (), ()).ref is HEADER.ref
