"""The overlapped blocks of the safe chain: requested in pages, kept as digests."""

from rollup_node.stages.derivation.codec.packed import TransactionPacker
from rollup_node.stages.derivation.pipeline.outputs import NeedL2Blocks
from rollup_node.stages.derivation.pipeline.overlap_blocks import (
    PAGE,
    OverlapBlock,
    OverlapBlocks,
    transactions_digest,
)
from rollup_node.stages.protocol.types import L2BlockContent
from tests.conformance.kit.chain import GENESIS
from tests.conformance.kit.planning import plan

DEPOSIT = b"\x7e\xc0"
CHAIN = [L2BlockContent(block.ref, (DEPOSIT, *block.transactions)) for block in plan(GENESIS, 100, (b"\x02user",))]


def _blocks(first: int, last: int) -> list[L2BlockContent]:
    return CHAIN[first - 1 : last]


def test_blocks_are_requested_in_pages() -> None:
    overlap = OverlapBlocks()
    assert overlap.find(5, 90) == NeedL2Blocks(5, 5 + PAGE - 1)
    blocks = _blocks(5, 5 + PAGE - 1)
    assert not overlap.add(5, 90, blocks)
    assert not overlap.add(5, 5 + PAGE - 1, blocks[1:])
    assert overlap.add(5, 5 + PAGE - 1, blocks)
    assert overlap.find(6, 90) == OverlapBlock(CHAIN[5].ref, 1, transactions_digest([b"\x02user"]))
    assert overlap.find(5 + PAGE, 90) == NeedL2Blocks(5 + PAGE, 90)


def test_an_unavailable_block_is_requested_again_in_the_next_check() -> None:
    overlap = OverlapBlocks()
    assert overlap.find(70, 90) == NeedL2Blocks(70, 90)
    assert overlap.add(70, 90, None)
    assert overlap.find(70, 90) is None
    overlap.begin_check()
    assert overlap.find(70, 90) == NeedL2Blocks(70, 90)


def test_another_safe_chain_is_requested_again() -> None:
    overlap = OverlapBlocks()
    overlap.find(6, 6)
    assert overlap.add(6, 6, _blocks(6, 6))
    overlap.clear()
    assert overlap.find(6, 6) == NeedL2Blocks(6, 6)


def test_digests_of_different_lists_differ() -> None:
    assert transactions_digest([b"ab", b"c"]) != transactions_digest([b"a", b"bc"])


def test_packed_transactions_have_the_same_digest() -> None:
    transactions = (b"ab", b"", b"c" * 3_000_000, b"d")
    packer = TransactionPacker()
    for transaction in transactions:
        packer.add(transaction)
    assert transactions_digest(packer.finish()) == transactions_digest(transactions)
