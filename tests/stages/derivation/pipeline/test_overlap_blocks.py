"""The safe chain is asked for piece by piece and kept as digests."""

from typing import Any

from rollup_node.stages.derivation.pipeline.outputs import NeedL2Blocks
from rollup_node.stages.derivation.pipeline.overlap_blocks import (
    PAGE,
    OverlapBlock,
    OverlapBlocks,
    transactions_digest,
)


def test_the_safe_chain_is_asked_for_in_pieces(made: Any) -> None:
    world = made.World({})
    world.extend(100, 0, b"\x02user")
    chain = OverlapBlocks()
    assert chain.find(5, 90) == NeedL2Blocks(5, 5 + PAGE - 1)
    blocks = [world.chain[number] for number in range(5, 5 + PAGE)]
    assert not chain.add(5, 90, blocks)
    assert not chain.add(5, 5 + PAGE - 1, blocks[1:])
    assert chain.add(5, 5 + PAGE - 1, blocks)
    found = chain.find(6, 90)
    assert isinstance(found, OverlapBlock)
    assert (found.ref, found.users, found.digest) == (world.chain[6].ref, 1, transactions_digest([b"\x02user"]))
    assert chain.find(5 + PAGE, 90) == NeedL2Blocks(5 + PAGE, 90)
    assert chain.add(5 + PAGE, 90, None)
    assert chain.find(70, 90) is None
    chain.begin_check()
    assert chain.find(70, 90) == NeedL2Blocks(70, 90)
    chain.clear()
    assert chain.find(6, 6) == NeedL2Blocks(6, 6)


def test_digests_of_different_lists_differ() -> None:
    assert transactions_digest([b"ab", b"c"]) != transactions_digest([b"a", b"bc"])
