"""Which of the latest blocks an engine that lost its own gets back [SEQ39]."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.blocks import latest_blocks
from rollup_node.stages.p2p.blocks.latest_blocks import MAX_BLOCKS, MAX_RECENT, LatestBlocks
from rollup_node.stages.p2p.signer.signed_blocks import BlockRecord
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, Hash
from tests.support.p2p.blocks import block, chain

BLOCKS = chain(40)
OTHERS = [block(number=3, parent=BLOCKS[1].block_hash, gas_used=1)]
OTHERS += [block(number=4, parent=OTHERS[0].block_hash, gas_used=1)]


class Own:
    """What this node sequenced: blocks of which payloads are kept, and blocks of which it only knows the parents."""

    def __init__(self, kept: list[ExecutionPayload], known: list[ExecutionPayload] | None = None) -> None:
        self._kept = {item.block_hash: item for item in kept}
        self._known = {item.block_hash: record(item) for item in [*kept, *(known or [])]}
        self.last = record(kept[-1]) if kept else None

    def find(self, number: int, block_hash: Hash) -> BlockRecord | None:
        _known = self._known.get(block_hash)
        assert _known is None or _known.number == number
        return _known

    def payload(self, block_hash: Hash) -> ExecutionPayload | None:
        return self._kept.get(block_hash)


def record(payload: ExecutionPayload) -> BlockRecord:
    return BlockRecord(payload.block_number, payload.block_hash, payload.parent_hash, None)


def at(number: int) -> BlockId:
    """Return the block of a number as a head."""
    return BlockId(number, BLOCKS[number - 1].block_hash)


def latest(own: Own | None, *peers: ExecutionPayload) -> LatestBlocks:
    latest_blocks = LatestBlocks(own)
    for peer in peers:
        latest_blocks.add(peer)
    return latest_blocks


def test_at_most_so_many_at_once_the_lowest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    result = latest(Own(BLOCKS))
    assert result.above(at(1)) == tuple(BLOCKS[1 : MAX_BLOCKS + 1])
    monkeypatch.setattr(latest_blocks, "MAX_BYTES", 3 * sum(map(len, BLOCKS[0].transactions)))
    assert result.above(at(1)) == tuple(BLOCKS[1:4])
    monkeypatch.setattr(latest_blocks, "MAX_BYTES", 1)
    assert result.above(at(1)) == (BLOCKS[1],), "a block that is larger comes alone"


def test_own_blocks_whose_lower_ones_are_not_kept_or_not_known() -> None:
    """The gap below them comes from peers or derivation."""
    assert latest(Own(BLOCKS[6:9], BLOCKS[3:6])).above(at(3)) == tuple(BLOCKS[6:9])
    assert latest(Own(BLOCKS[6:9])).above(at(3)) == tuple(BLOCKS[6:9])


def test_blocks_of_peers_that_descend_from_the_head_alone() -> None:
    assert latest(None, *BLOCKS[3:6]).above(at(3)) == tuple(BLOCKS[3:6])
    assert latest(None, *reversed(BLOCKS[3:6])).above(at(3)) == tuple(BLOCKS[3:6]), "in whatever order they came"
    assert latest(None, *BLOCKS[3:6]).above(at(2)) == ()


def test_the_longer_of_two_chains() -> None:
    assert latest(Own(BLOCKS[:3]), *OTHERS).above(at(2)) == tuple(OTHERS)
    assert latest(Own(BLOCKS[:5]), *OTHERS).above(at(2)) == tuple(BLOCKS[2:5])


def test_the_blocks_of_peers_are_bounded() -> None:
    result = latest(None, *BLOCKS[: MAX_RECENT + 3])
    assert result.recent == BLOCKS[3 : MAX_RECENT + 3]


@given(own=st.sets(st.integers(1, 20)), peers=st.lists(st.integers(1, 20), max_size=16), head=st.integers(1, 20))
def test_what_is_returned_descends_from_the_head_in_order(own: set[int], peers: list[int], head: int) -> None:
    mine = Own([BLOCKS[number - 1] for number in sorted(own)])
    result = latest(mine, *(BLOCKS[number - 1] for number in peers)).above(at(head))
    numbers = [item.block_number for item in result]
    assert all(number in own or number in peers for number in numbers)
    assert all(low < high for low, high in pairwise([head, *numbers]))
    if own and max(own) > head and all(number in own or number in peers for number in range(head + 1, max(own))):
        assert numbers[: max(own) - head] == list(range(head + 1, max(own) + 1))[:MAX_BLOCKS]
