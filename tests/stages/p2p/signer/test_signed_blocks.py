"""No second block is signed for a height, unless the chain was reorganised below it [SGN10]."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.signer.signed_blocks import (
    MAX_BLOCKS_PER_HEIGHT,
    MAX_HEIGHTS,
    MAX_L1_BLOCKS,
    MAX_PAYLOAD_BYTES,
    BlockFate,
    BlockRecord,
    KeptPayload,
    KeptPayloads,
    L1Hash,
    RecentL1Chain,
    SignedBlocks,
    SigningRequest,
    signing_request,
)
from rollup_node.stages.protocol.types import BlockId, Hash, L1BlockRef, L2BlockRef
from tests.support.engine.sequencer_model import ModelSequencer
from tests.support.p2p.blocks import BLOCK_TIME, GENESIS_TIME, block, chain_config, l1_info_transaction

SAME_PARENT = "came first on the same parent"


def origin(number: int, branch: int = 0) -> BlockId:
    return BlockId(number, bytes([branch]) + number.to_bytes(31, "big"))


def record(number: int, branch: int = 0, parent: int = 0, at: BlockId | None = None) -> BlockRecord:
    """Return the block of a number on a branch, above the one of branch `parent`; its L1 origin is 100 by default."""
    return BlockRecord(number, block_hash(number, branch), block_hash(number - 1, parent), at or origin(100))


def block_hash(number: int, branch: int) -> Hash:
    return bytes([branch]) + number.to_bytes(31, "big", signed=True)


def unknown(_: int) -> None:
    """Of L1 nothing is known."""


def decide(blocks: SignedBlocks, wanted: BlockRecord, derived: int = 0, l1_hash: L1Hash = unknown) -> str | None:
    """Why a block is not signed. Its parent's parent is of the first branch."""
    parent = BlockRecord(wanted.number - 1, wanted.parent_hash, block_hash(wanted.number - 2, 0), origin(100))
    return blocks.decide(SigningRequest(wanted, parent._replace(fate=BlockFate.ANCESTOR), derived), l1_hash)[0]


def signed(*wanted: BlockRecord) -> SignedBlocks:
    """After these blocks were signed."""
    blocks = SignedBlocks()
    assert [decide(blocks, item) for item in wanted] == [None] * len(wanted)
    return blocks


def refused_because(refusal: str | None, text: str) -> bool:
    return refusal is not None and text in refusal


@pytest.mark.parametrize("is_first", [False, True])
def test_a_block_of_unknown_origin_is_no_reorg(is_first: bool) -> None:
    known, other = record(1), record(1, branch=1)._replace(origin=None)
    first, second = (other, known) if is_first else (known, other)
    assert refused_because(decide(signed(first), second), SAME_PARENT)


def test_an_older_origin_counts_only_if_l1_has_replaced_the_other() -> None:
    """An endpoint of L1 that is behind makes the sequencer keep the older origin as well."""
    first, second = record(5, at=origin(101)), record(5, branch=1, at=origin(100))
    for l1_block, is_signed in ((None, False), (origin(101), False), (origin(101, branch=1), True)):
        asked: list[int] = []

        def l1_hash(number: int, asked: list[int] = asked, block_id: BlockId | None = l1_block) -> Hash | None:
            asked.append(number)
            return None if block_id is None else block_id.hash

        refusal = decide(signed(first), second, l1_hash=l1_hash)
        assert (refusal is None) == is_signed and asked == [101]


def test_a_block_signed_before_a_reorg_may_be_signed_after_it_is_undone() -> None:
    first, second = record(5), record(5, branch=1, at=origin(100, branch=1))
    blocks = signed(first, second)
    assert decide(blocks, first) is None
    assert decide(blocks, record(5, branch=2)) is not None


def test_a_derived_parent_follows_from_a_reorg_below() -> None:
    """Derivation replaced block 5 by one that no sequencer signs."""
    blocks = signed(*(record(number) for number in range(1, 9)))
    other = record(6, branch=1, parent=1)
    assert refused_because(decide(blocks, other, derived=4), "its parent was never seen, and is not derived from L1")
    assert decide(signed(*(record(number) for number in range(1, 9))), other, derived=5) is None


def test_the_descendants_of_a_refused_block_are_refused_up_to_the_highest_signed_height() -> None:
    """The engine lost blocks 3 to 5 in a crash, and the sequencer built others."""
    blocks = signed(*(record(number) for number in range(1, 6)))
    assert refused_because(decide(blocks, record(3, branch=1)), SAME_PARENT)
    for number in (4, 5):
        refusal = decide(blocks, record(number, branch=1, parent=1), derived=number - 2)
        assert refused_because(refusal, "its parent was refused")
    assert decide(blocks, record(6, branch=1, parent=1)) is None, "nothing was signed at this height"


def test_a_block_that_was_never_handed_over_takes_its_height_too() -> None:
    """Blocks 3 to 5 were signed, but 2 and 1 got lost on the way here; the engine lost all in a crash."""
    blocks = signed(*(record(number) for number in (3, 4, 5)))
    reason = f"the parent 0x{block_hash(1, 0).hex()} of a signed block takes its height"
    assert decide(blocks, record(1, branch=1)) == reason
    for number in (2, 3, 4, 5):
        assert refused_because(decide(blocks, record(number, branch=1, parent=1)), "its parent was refused")


def test_an_ancestor_takes_its_height_unless_l1_was_reorganised() -> None:
    """Block 2 is another sequencer's."""
    other = record(2, branch=1)
    assert refused_because(decide(signed(record(3)), other, derived=1), SAME_PARENT)
    assert decide(signed(record(3)), other._replace(origin=origin(100, branch=1)), derived=1) is None


def test_an_ancestor_was_not_signed() -> None:
    """It may have been refused, before a restart that forgot it."""
    blocks = signed(record(3))
    assert refused_because(decide(blocks, record(2)), "its parent was never seen")


STEP = st.one_of(
    st.tuples(st.just("build")),
    st.tuples(st.just("build")),
    st.tuples(st.just("build")),
    st.tuples(st.just("extend_l1")),
    st.tuples(st.just("reorganise_l1"), st.integers(1, 3), st.integers(1, 4)),
    st.tuples(st.just("derive_another_and_build"), st.integers(1, 4)),
)
LOSS = st.one_of(
    st.tuples(st.just("lose"), st.integers(1, 6)),
    st.tuples(st.just("build"), st.just(True)),
    st.tuples(st.just("restart")),
)


@given(st.lists(STEP, max_size=60))
def test_reorgs_never_keep_a_sequencer_from_signing(steps: list[tuple[Any, ...]]) -> None:
    sequencer = ModelSequencer()
    for name, *arguments in steps:
        assert getattr(sequencer, name)(*arguments) is not False


@given(st.lists(st.one_of(STEP, LOSS), max_size=60))
def test_no_second_block_is_signed_for_a_height_without_a_reorg(steps: list[tuple[Any, ...]]) -> None:
    """Also when the engine loses blocks, some are never handed over, and the signer's process is restarted."""
    sequencer = ModelSequencer()
    for name, *arguments in steps:
        getattr(sequencer, name)(*arguments)
    assert sequencer.conflicts == []


@given(st.integers(1, 20), st.integers(1, 25))
def test_lost_blocks_are_not_signed_again_and_later_ones_are(built: int, lost: int) -> None:
    sequencer = ModelSequencer()
    for _ in range(built):
        assert sequencer.build()
    sequencer.lose(lost)
    sequencer.extend_l1()
    again = [sequencer.build() for _ in range(min(lost, built) + 3)]
    assert again == [False] * min(lost, built) + [True] * 3


def test_what_is_remembered_is_bounded() -> None:
    blocks = signed(*(record(number) for number in range(1, MAX_HEIGHTS + 2)))
    assert blocks.lowest == 2
    assert decide(blocks, record(1, branch=1)) == "what was signed below block 2 is forgotten"
    assert refused_because(decide(blocks, record(2, branch=1), derived=1), SAME_PARENT)


def test_blocks_of_one_height_are_bounded_and_refused_ones_leave_first() -> None:
    blocks = signed(record(2))
    for branch in range(1, 3 * MAX_BLOCKS_PER_HEIGHT):
        request = SigningRequest(record(2, branch), record(1)._replace(fate=BlockFate.ANCESTOR), 0)
        refusal, new = blocks.decide(request, unknown)
        assert refusal is not None and bool(new) == (branch < MAX_BLOCKS_PER_HEIGHT)
    assert refused_because(decide(blocks, record(2, branch=255)), block_hash(2, 0).hex())
    for branch in range(100, 100 + MAX_BLOCKS_PER_HEIGHT - 1):
        assert decide(blocks, record(2, branch, at=origin(100, branch))) is None
    last = record(2, branch=255, at=origin(100))
    assert refused_because(decide(blocks, last), block_hash(2, 0).hex()), "only refused ones have left"
    assert decide(blocks, record(2, branch=200, at=origin(100, 200))) is None
    assert decide(blocks, last) is None, "the first one has left"


def test_the_request_for_a_payload() -> None:
    config = chain_config()
    unreadable = block(number=7)
    parent = L2BlockRef(unreadable.parent_hash, 6, b"\x05" * 32, 1, origin(99), 3)
    ancestor = BlockRecord(6, parent.hash, parent.parent_hash, origin(99), BlockFate.ANCESTOR)
    expected = BlockRecord(7, unreadable.block_hash, unreadable.parent_hash, None)
    assert signing_request(config, unreadable, parent, 4) == SigningRequest(expected, ancestor, 4)
    first = l1_info_transaction(config, GENESIS_TIME + 7 * BLOCK_TIME, origin(100))
    readable = block(number=7, transactions=(first,))
    expected = BlockRecord(7, readable.block_hash, readable.parent_hash, origin(100))
    assert signing_request(config, readable, parent, 4).block == expected


def l1_hash_of(number: int, fork: int = 0) -> Hash:
    return bytes([fork]) + number.to_bytes(31, "big")


def l1_head(number: int, fork: int = 0, parent: int | None = None) -> L1BlockRef:
    return L1BlockRef(
        l1_hash_of(number, fork), number, l1_hash_of(number - 1, fork if parent is None else parent), 12 * number
    )


def chain_of(*heads: L1BlockRef) -> RecentL1Chain:
    chain = RecentL1Chain()
    for head in heads:
        chain.take(head)
    return chain


def known(chain: RecentL1Chain, *numbers: int) -> list[int | None]:
    """Return the forks of the blocks that are known."""
    result = (chain.hash_of(number) for number in numbers)
    return [None if item is None else item[0] for item in result]


def heads(first: int, last: int) -> list[L1BlockRef]:
    return [l1_head(number) for number in range(first, last + 1)]


@pytest.mark.parametrize(
    ("taken", "forks"),
    [
        pytest.param(heads(7, 7), [None, 0, 0, None, None, None], id="a head and its parent"),
        pytest.param(heads(7, 9), [None, 0, 0, 0, 0, None], id="a chain of heads"),
        pytest.param([*heads(7, 8), l1_head(8, 1, parent=0)], [None, 0, 0, 1, None, None], id="a reorg"),
        pytest.param([*heads(7, 9), l1_head(8, 1, parent=0)], [None, 0, 0, 1, None, None], id="a reorg of two"),
        pytest.param([*heads(7, 8), l1_head(10, 1)], [None, None, None, None, 1, 1], id="a gap"),
        pytest.param([*heads(7, 8), l1_head(9, 1)], [None, None, None, 1, 1, None], id="another parent"),
        pytest.param([*heads(7, 9), l1_head(7)], [None, 0, 0, 0, 0, None], id="an older head"),
        pytest.param([*heads(7, 9), l1_head(5), l1_head(3, 1), l1_head(10)], [None, 0, 0, 0, 0, 0], id="heads below"),
    ],
)
def test_what_is_known_of_l1(taken: list[L1BlockRef], forks: list[int | None]) -> None:
    assert known(chain_of(*taken), *range(5, 11)) == forks


def test_the_number_of_blocks_is_bounded() -> None:
    chain = chain_of(*(l1_head(number) for number in range(1, 3 * MAX_L1_BLOCKS)))
    newest = 3 * MAX_L1_BLOCKS - 1
    assert known(chain, newest - MAX_L1_BLOCKS, newest - MAX_L1_BLOCKS + 1, newest) == [None, 0, 0]
    assert sum(chain.hash_of(number) is not None for number in range(newest + 2)) == MAX_L1_BLOCKS


def name(number: int) -> bytes:
    return number.to_bytes(32, "big")


def kept(kept_payloads: KeptPayloads) -> list[int]:
    """Return the numbers of the kept payloads, the last one first."""
    return [item.number for item in kept_payloads.newest_first()]


def test_a_block_that_is_sequenced_again_is_the_last() -> None:
    kept_payloads = KeptPayloads()
    for number in (6, 7, 5):
        kept_payloads.add(number, name(number), MAX_PAYLOAD_BYTES // 3)
    assert kept_payloads.add(6, name(6), MAX_PAYLOAD_BYTES // 3) == KeptPayload(4, 6, name(6), MAX_PAYLOAD_BYTES // 3)
    assert kept(kept_payloads) == [6, 5, 7] and kept_payloads.lowest == 2, "its bytes count once"


@given(st.lists(st.integers(1, MAX_PAYLOAD_BYTES // 2), max_size=40), st.integers(0, 40))
def test_a_restart_changes_nothing(sizes: list[int], at: int) -> None:
    """The order is that of the positions, in whatever order they were read."""
    result = again = KeptPayloads()
    for number, size in enumerate(sizes):
        if number == at:
            again = KeptPayloads(sorted(result.newest_first(), key=lambda item: item.hash[::-1]))
        expected, got = result.add(number, name(number), size), again.add(number, name(number), size)
        assert number < at or expected == got
    if at < len(sizes):
        assert kept(result) == kept(again) and result.lowest == again.lowest
    assert sum(item.size for item in result.newest_first()) <= MAX_PAYLOAD_BYTES
