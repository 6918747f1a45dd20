"""The latest L1 blocks: what the heads of L1 prove, and nothing else."""

from rollup_node.stages.p2p.signer.l1_chain import MAX_BLOCKS, L1Chain
from rollup_node.stages.protocol.types import Hash, L1BlockRef


def block_hash(number: int, fork: int = 0) -> Hash:
    return bytes([fork]) + number.to_bytes(31, "big")


def head(number: int, fork: int = 0, parent: int | None = None) -> L1BlockRef:
    return L1BlockRef(
        block_hash(number, fork), number, block_hash(number - 1, fork if parent is None else parent), 12 * number
    )


def chain_of(*heads: L1BlockRef) -> L1Chain:
    chain = L1Chain()
    for each in heads:
        chain.take(each)
    return chain


def known(chain: L1Chain, *numbers: int) -> list[int | None]:
    """The forks of the blocks that are known."""
    found = (chain.hash_of(number) for number in numbers)
    return [None if each is None else each[0] for each in found]


def test_a_head_shows_itself_and_its_parent() -> None:
    assert known(chain_of(head(7)), 5, 6, 7, 8) == [None, 0, 0, None]


def test_heads_that_follow_each_other_are_a_chain() -> None:
    assert known(chain_of(head(7), head(8), head(9)), 6, 7, 8, 9) == [0, 0, 0, 0]


def test_a_reorg_replaces_blocks() -> None:
    assert known(chain_of(head(7), head(8), head(8, 1, parent=0)), 6, 7, 8) == [0, 0, 1]
    assert known(chain_of(head(7), head(8), head(9), head(8, 1, parent=0)), 7, 8, 9) == [0, 1, None]


def test_behind_a_gap_nothing_is_known() -> None:
    """Block 7 may have been replaced as well."""
    assert known(chain_of(head(7), head(8), head(10, 1)), 6, 7, 8, 9, 10) == [None, None, None, 1, 1]
    assert known(chain_of(head(7), head(8), head(9, 1)), 6, 7, 8, 9) == [None, None, 1, 1]


def test_an_older_head_of_the_chain_changes_nothing() -> None:
    assert known(chain_of(head(7), head(8), head(9), head(7)), 6, 7, 8, 9) == [0, 0, 0, 0]


def test_a_head_below_what_is_known_changes_nothing() -> None:
    chain = chain_of(head(7), head(8), head(9), head(5), head(3, 1))
    assert known(chain, 3, 4, 5, 6, 7, 8, 9) == [None, None, None, 0, 0, 0, 0]
    chain.take(head(10))
    assert known(chain, 6, 10) == [0, 0]


def test_the_number_of_blocks_is_bounded() -> None:
    chain = chain_of(*(head(number) for number in range(1, 3 * MAX_BLOCKS)))
    newest = 3 * MAX_BLOCKS - 1
    assert known(chain, newest - MAX_BLOCKS, newest - MAX_BLOCKS + 1, newest) == [None, 0, 0]
    assert sum(chain.hash_of(number) is not None for number in range(newest + 2)) == MAX_BLOCKS
