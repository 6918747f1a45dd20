"""No second block is signed for a height, unless the chain was reorganised below it [SGN10]."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.signer.signed_blocks import (
    MAX_BLOCKS_PER_HEIGHT,
    MAX_HEIGHTS,
    BlockRecord,
    SignedBlocks,
    record_of,
)
from rollup_node.stages.protocol.types import BlockId
from tests.support.p2p_blocks import BLOCK_TIME, GENESIS_TIME, block, chain_config, l1_info_transaction


def origin(number: int, branch: int = 0) -> BlockId:
    return BlockId(number, bytes([branch]) + number.to_bytes(31, "big"))


def record(number: int, branch: int = 0, parent: int = 0, at: BlockId | None = None) -> BlockRecord:
    """The block of a number on a branch, above the one of branch `parent`; its L1 origin is 100 by default."""
    return BlockRecord(number, block_hash(number, branch), block_hash(number - 1, parent), at or origin(100))


def block_hash(number: int, branch: int) -> bytes:
    return bytes([branch]) + number.to_bytes(31, "big")


def test_each_height_is_signed_once() -> None:
    blocks = SignedBlocks(record(number) for number in (1, 2, 3))
    assert blocks.conflict(record(4)) is None
    assert blocks.conflict(record(2, branch=1)) == record(2)
    assert blocks.conflict(record(2)) is None, "the same block may be signed again"


def test_a_block_of_unknown_origin_is_no_reorg() -> None:
    unknown = record(1, branch=1)._replace(origin=None)
    assert SignedBlocks([record(1)]).conflict(unknown) == record(1)
    assert SignedBlocks([unknown]).conflict(record(1)) == unknown


def test_a_reorg_of_l1_replaces_the_block_on_the_same_parent() -> None:
    signed = record(5, at=origin(100))
    blocks = SignedBlocks([signed])
    assert blocks.conflict(record(5, branch=1, at=origin(100, branch=1))) is None
    assert blocks.conflict(record(5, branch=1, at=origin(99))) is None, "the L1 block after the parent's origin is gone"
    assert blocks.conflict(record(5, branch=1, at=origin(101))) == signed, "the signed block's origin is still on L1"


def test_a_block_signed_before_a_reorg_may_be_signed_after_it_is_undone() -> None:
    first, second = record(5), record(5, branch=1, at=origin(99))
    blocks = SignedBlocks([first, second])
    assert blocks.conflict(first) is None and blocks.conflict(record(5, branch=2)) == first


def test_a_block_on_another_parent_follows_from_a_reorg_below() -> None:
    """Derivation replaced block 5 by one that no sequencer signs."""
    blocks = SignedBlocks(record(number) for number in range(1, 9))
    assert blocks.conflict(record(6, branch=1, parent=1)) is None


def test_the_descendants_of_a_refused_block_are_refused_up_to_the_highest_signed_height() -> None:
    """The engine lost blocks 3 to 5 in a crash, and the sequencer built others."""
    blocks = SignedBlocks(record(number) for number in range(1, 6))
    other = record(3, branch=1)
    assert blocks.conflict(other) == record(3)
    blocks.add(other._replace(is_refused=True))
    for number in (4, 5):
        other = record(number, branch=1, parent=1)
        refusing = blocks.conflict(other)
        assert refusing is not None and refusing.is_refused and refusing.number == number - 1
        blocks.add(other._replace(is_refused=True))
    assert blocks.conflict(record(6, branch=1, parent=1)) is None, "nothing was signed at this height"


class ModelSequencer:
    """A sequencer above a model of L1: reorgs of L1 and derivation take blocks back, a crash of the engine loses some.
    Every block has a new hash, as its transactions differ."""

    def __init__(self) -> None:
        self.signed = SignedBlocks()
        self._last = 0
        self._l1 = [BlockId(0, self._new_hash())]
        self._blocks = [BlockRecord(0, self._new_hash(), bytes(32), self._l1[0])]

    def _new_hash(self) -> bytes:
        self._last += 1
        return self._last.to_bytes(32, "big")

    def build(self, takes_next_origin: bool) -> bool:
        """Builds the next block, and signs it if it may; returns whether it was signed."""
        parent = self._blocks[-1]
        assert parent.origin is not None
        origin = self._l1[min(parent.origin.number + takes_next_origin, len(self._l1) - 1)]
        built = BlockRecord(parent.number + 1, self._new_hash(), parent.hash, origin)
        is_refused = self.signed.conflict(built) is not None
        self.signed.add(built._replace(is_refused=is_refused))
        self._blocks.append(built)
        return not is_refused

    def extend_l1(self) -> None:
        self._l1.append(BlockId(len(self._l1), self._new_hash()))

    def reorganise_l1(self, depth: int, length: int) -> None:
        """Replaces the latest blocks of L1 by `length` others; the unsafe head goes back to an origin that is left."""
        del self._l1[max(1, len(self._l1) - depth) :]
        for _ in range(length):
            self.extend_l1()
        while self._blocks[-1].origin not in self._l1:
            self._blocks.pop()

    def lose(self, count: int) -> None:
        """The engine loses blocks, but not genesis."""
        del self._blocks[max(1, len(self._blocks) - count) :]

    def derive_another(self, count: int) -> None:
        """Derivation replaces a block by one that is not signed, and with it all above."""
        if len(self._blocks) > 1:
            self.lose(count)
            parent = self._blocks[-1]
            self._blocks.append(BlockRecord(parent.number + 1, self._new_hash(), parent.hash, parent.origin))


STEP = st.one_of(
    st.tuples(st.just("build"), st.booleans()),
    st.tuples(st.just("build"), st.booleans()),
    st.tuples(st.just("extend_l1")),
    st.tuples(st.just("reorganise_l1"), st.integers(1, 3), st.integers(0, 3)),
    st.tuples(st.just("derive_another"), st.integers(1, 4)),
)


@given(st.lists(STEP, max_size=60))
def test_reorgs_never_keep_a_sequencer_from_signing(steps: list[tuple[Any, ...]]) -> None:
    sequencer = ModelSequencer()
    for name, *arguments in steps:
        assert getattr(sequencer, name)(*arguments) is not False


@given(st.integers(1, 20), st.integers(1, 25), st.booleans())
def test_lost_blocks_are_not_signed_again_and_later_ones_are(built: int, lost: int, takes_next_origin: bool) -> None:
    sequencer = ModelSequencer()
    for _ in range(built):
        assert sequencer.build(takes_next_origin)
    sequencer.lose(lost)
    sequencer.extend_l1()
    again = [sequencer.build(takes_next_origin) for _ in range(min(lost, built) + 3)]
    assert again == [False] * min(lost, built) + [True] * 3


def test_what_is_remembered_is_bounded() -> None:
    blocks = SignedBlocks(record(number) for number in range(1, MAX_HEIGHTS + 2))
    assert blocks.lowest == 2
    assert blocks.conflict(record(1, branch=1)) is None, "forgotten"
    assert blocks.conflict(record(2, branch=1)) == record(2)
    assert not blocks.add(record(1, branch=1)), "too low"


def test_blocks_of_one_height_are_bounded_and_refused_ones_leave_first() -> None:
    blocks = SignedBlocks([record(2)])
    for branch in range(1, 3 * MAX_BLOCKS_PER_HEIGHT):
        is_new = blocks.add(record(2, branch)._replace(is_refused=True))
        assert is_new == (branch < MAX_BLOCKS_PER_HEIGHT)
    assert blocks.conflict(record(2, branch=255)) == record(2)
    for branch in range(100, 100 + MAX_BLOCKS_PER_HEIGHT - 1):
        assert blocks.add(record(2, branch)) and not blocks.add(record(2, branch))
    assert blocks.conflict(record(2, branch=255)) == record(2), "only refused ones have left"
    assert blocks.add(record(2, branch=200))
    assert blocks.conflict(record(2, branch=255)) == record(2, branch=100)


def test_the_record_of_a_payload() -> None:
    config = chain_config()
    unreadable = block(number=7)
    assert record_of(config, unreadable) == BlockRecord(7, unreadable.block_hash, unreadable.parent_hash, None)
    first = l1_info_transaction(config, GENESIS_TIME + 7 * BLOCK_TIME, origin(100))
    readable = block(number=7, transactions=(first,))
    assert record_of(config, readable) == BlockRecord(7, readable.block_hash, readable.parent_hash, origin(100))
