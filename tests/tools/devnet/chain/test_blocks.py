"""The chain of blocks: heads, branches, labels, places of transactions, ancestors."""

from typing import Any

from rollup_node.tools.devnet.chain.blocks import Block


def grow(small: Any, ledger: Any, parent: Block, *transactions: bytes) -> Block:
    """A known block on any parent; the head stays."""
    block: Block = ledger.begin(parent, small.attributes(parent.header, *transactions)).seal()
    ledger.chain.insert(block)
    return block


def test_heads_switch_between_branches(small_chain: Any) -> None:
    small = small_chain()
    ledger = small.ledger()
    chain = ledger.chain
    genesis = chain.genesis
    one = grow(small, ledger, genesis, small.transfer(0, 0))
    two = grow(small, ledger, one)
    other = grow(small, ledger, genesis, small.transfer(1, 0))
    assert chain.set_head(two).added == (one, two)
    chain.safe, chain.finalized = two, one
    moved, kept = one.transactions[1].hash, other.transactions[1].hash
    place = chain.place(moved)
    assert place is not None and (place.block, place.position) == (one, 1)
    switch = chain.set_head(other)
    assert switch.removed == (one, two) and switch.added == (other,)
    assert chain.head == other and chain.safe == chain.finalized == genesis
    assert chain.place(moved) is None and chain.place(kept) is not None
    assert chain.at(1) == other and chain.at(2) is None and chain.get(two.hash) == two
    assert chain.set_head(genesis).removed == (other,)


def test_ancestors_and_block_hashes_are_of_the_blocks_own_branch(small_chain: Any) -> None:
    small = small_chain()
    ledger = small.ledger()
    chain = ledger.chain
    one = grow(small, ledger, chain.genesis, small.transfer(0, 0))
    two = grow(small, ledger, one)
    side_one = grow(small, ledger, chain.genesis, small.transfer(1, 0))
    side_two = grow(small, ledger, side_one)
    chain.set_head(two)
    assert chain.ancestor(two, 1) == one and chain.ancestor(side_two, 1) == side_one
    assert chain.ancestor(side_two, 0) == chain.genesis
    assert [chain.hashes_before(side_two)(number) for number in range(3)] == [
        chain.genesis.hash,
        side_one.hash,
        side_two.hash,
    ]
