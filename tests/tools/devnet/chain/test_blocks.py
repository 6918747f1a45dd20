"""The chain of blocks: heads, branches, labels, places of transactions, ancestors."""

from typing import Any

from rollup_node.tools.devnet.chain.blocks import Block
from tests.support.l2_test_chain import L2TestChain


def grow(l2: Any, backend: Any, parent: Block, *transactions: bytes) -> Block:
    """A known block on any parent; the head stays."""
    block: Block = backend.begin(parent, l2.attributes(parent.header, *transactions)).seal()
    backend.chain.insert(block)
    return block


def test_heads_switch_between_branches() -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    chain = backend.chain
    genesis = chain.genesis
    one = grow(l2, backend, genesis, l2.transfer(0, 0))
    two = grow(l2, backend, one)
    other = grow(l2, backend, genesis, l2.transfer(1, 0))
    assert chain.set_head(two).added == (one, two)
    chain.safe, chain.finalized = two, one
    moved, kept = one.transactions[1].hash, other.transactions[1].hash
    place = chain.locate(moved)
    assert place is not None and (place.block, place.position) == (one, 1)
    switch = chain.set_head(other)
    assert switch.removed == (one, two) and switch.added == (other,)
    assert chain.head == other and chain.safe == chain.finalized == genesis
    assert chain.locate(moved) is None and chain.locate(kept) is not None
    assert chain.at(1) == other and chain.at(2) is None and chain.get(two.hash) == two
    assert chain.set_head(genesis).removed == (other,)


def test_ancestors_and_block_hashes_are_of_the_blocks_own_branch() -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    chain = backend.chain
    one = grow(l2, backend, chain.genesis, l2.transfer(0, 0))
    two = grow(l2, backend, one)
    side_one = grow(l2, backend, chain.genesis, l2.transfer(1, 0))
    side_two = grow(l2, backend, side_one)
    chain.set_head(two)
    assert chain.ancestor(two, 1) == one and chain.ancestor(side_two, 1) == side_one
    assert chain.ancestor(side_two, 0) == chain.genesis
    assert [chain.hashes_before(side_two)(number) for number in range(3)] == [
        chain.genesis.hash,
        side_one.hash,
        side_two.hash,
    ]
