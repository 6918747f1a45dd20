"""The block chain in memory: heads, branches, labels, locations of transactions, ancestors."""

from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.engine.backend import L2Backend
from tests.support.chains.l2_test_chain import L2TestChain


def insert(l2: L2TestChain, backend: L2Backend, parent: Block, *transactions: bytes) -> Block:
    """Inserts a block on a parent without following it."""
    block: Block = backend.begin(parent, l2.attributes(parent.header, *transactions)).seal()
    backend.chain.insert(block)
    return block


def test_set_head_switches_between_branches() -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    chain = backend.chain
    genesis = chain.genesis
    one = insert(l2, backend, genesis, l2.transfer(0, 0))
    two = insert(l2, backend, one)
    other = insert(l2, backend, genesis, l2.transfer(1, 0))
    assert chain.set_head(two).added == (one, two)
    chain.safe, chain.finalized = two, one
    moved, kept = one.transactions[1].hash, other.transactions[1].hash
    location = chain.locate(moved)
    assert location is not None and (location.block, location.position) == (one, 1)
    change = chain.set_head(other)
    assert change.removed == (one, two) and change.added == (other,)
    assert chain.head == other and chain.safe == chain.finalized == genesis
    assert chain.locate(moved) is None and chain.locate(kept) is not None
    assert chain.at(1) == other and chain.at(2) is None and chain.get(two.hash) == two
    assert chain.set_head(genesis).removed == (other,)


def test_ancestors_and_block_hashes_are_on_the_blocks_own_branch() -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    chain = backend.chain
    one = insert(l2, backend, chain.genesis, l2.transfer(0, 0))
    two = insert(l2, backend, one)
    side_one = insert(l2, backend, chain.genesis, l2.transfer(1, 0))
    side_two = insert(l2, backend, side_one)
    chain.set_head(two)
    assert chain.ancestor(two, 1) == one and chain.ancestor(side_two, 1) == side_one
    assert chain.ancestor(side_two, 0) == chain.genesis
    assert [chain.hashes_before(side_two)(number) for number in range(3)] == [
        chain.genesis.hash,
        side_one.hash,
        side_two.hash,
    ]
