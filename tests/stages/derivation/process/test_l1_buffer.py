"""Prefetched L1 blocks that arrive in any order, and reorgs."""

import msgspec
import pytest

from rollup_node.stages.derivation.process.l1_buffer import MAX_BUFFERED, L1Buffer
from rollup_node.stages.protocol.types import InboxTransaction, L1Block, Log
from tests.conformance.kit.chain import FIRST_L1, L1Blocks


def _l1(count: int = 10) -> list[L1Block]:
    l1 = L1Blocks()
    l1.skip(count)
    return l1.blocks


def _branch(block: L1Block, parent: bytes | None = None) -> L1Block:
    """Return a block of another chain with the same number."""
    number = block.header.number
    header = msgspec.structs.replace(
        block.header, hash=b"other%27d" % number, parent_hash=parent or b"other%27d" % (number - 1)
    )
    return msgspec.structs.replace(block, header=header)


def _started(window: int, first: int = 0) -> L1Buffer:
    buffer = L1Buffer(window)
    buffer.restart(FIRST_L1 + first)
    return buffer


def test_blocks_are_given_out_in_order() -> None:
    l1, buffer = _l1(), _started(4, first=5)
    assert buffer.missing == (FIRST_L1 + 5, 4)
    assert buffer.take(None) is None
    for number in (6, 5, 8):
        assert buffer.add(l1[number])
    assert buffer.missing == (FIRST_L1 + 7, 2)
    assert list(buffer.linked()) == l1[5:7] and len(buffer) == 3
    assert buffer.taken is None
    assert buffer.take(l1[4].header.hash) == l1[5] and len(buffer) == 2
    assert buffer.taken == l1[5].header.hash
    assert buffer.missing == (FIRST_L1 + 7, 3)
    assert not buffer.add(l1[5])
    assert not buffer.add(l1[10])


def test_a_smaller_window_keeps_what_is_there() -> None:
    l1, buffer = _l1(), _started(2)
    buffer.window = 6
    assert buffer.missing == (FIRST_L1, 6)
    for number in range(5):
        assert buffer.add(l1[number])
    buffer.window = 2
    assert buffer.missing is None and not buffer.add(l1[5]) and list(buffer.linked()) == l1[:5]


def test_a_reorg_discards_the_neighbours() -> None:
    l1, buffer = _l1(), _started(8, first=1)
    for number in range(1, 5):
        buffer.add(l1[number])
    buffer.add(_branch(l1[3]))
    assert buffer.missing == (FIRST_L1 + 1, 8)
    buffer.add(_branch(l1[2], l1[1].header.hash))
    buffer.add(l1[1])
    assert [block.header.hash[:5] for block in buffer.linked()][1:] == [b"other", b"other"]


def test_a_block_that_its_successor_does_not_follow() -> None:
    l1, buffer = _l1(), _started(8, first=1)
    for number in (1, 3, 4):
        buffer.add(l1[number])
    buffer.add(_branch(l1[2], l1[1].header.hash))
    assert [block.header.number for block in buffer.linked()] == [FIRST_L1 + 1, FIRST_L1 + 2]


def test_a_block_that_does_not_follow_is_given_out_when_it_arrives_again() -> None:
    l1, buffer = _l1(), _started(8, first=3)
    parent, other = l1[2].header.hash, _branch(l1[3])
    buffer.add(other)
    assert buffer.take(parent) is None
    assert buffer.missing == (FIRST_L1 + 3, 8)
    buffer.add(l1[3])
    assert buffer.take(parent) == l1[3]
    buffer.restart(FIRST_L1 + 3)
    buffer.add(other)
    assert buffer.take(parent) is None
    buffer.add(other)
    assert buffer.take(parent) == other


@pytest.mark.condition("C9")
def test_large_blocks_shorten_the_window() -> None:
    """The block that is needed next always fits."""
    l1, buffer = _l1(), _started(8)
    large = InboxTransaction(2, bytes(20), bytes(MAX_BUFFERED + 1), ())
    first, second, third = (msgspec.structs.replace(block, inbox=(large,)) for block in l1[:3])
    assert buffer.add(second)
    assert buffer.missing == (FIRST_L1, 8)
    assert not buffer.add(third)
    assert buffer.add(first)
    assert buffer.missing is None
    assert buffer.take(None) == first
    assert not buffer.add(third)
    assert buffer.take(None) == second
    assert buffer.missing == (FIRST_L1 + 2, 8)
    assert buffer.add(third)


def test_logs_of_deposits_count() -> None:
    """64 blocks with 153.6 MB of logs are not 0 bytes of the bound."""
    l1, buffer = _l1(64), _started(160)
    log = Log(bytes(20), (bytes(32),) * 4, bytes(100_000), 0)
    added = 0
    for block in l1:
        added += buffer.add(msgspec.structs.replace(block, deposits=(log,) * 24))
    assert added * 24 * len(log.data) <= MAX_BUFFERED + 24 * len(log.data) < (added + 2) * 24 * len(log.data)
    assert buffer.missing is None
    while buffer.take(None) is not None:
        pass
    assert buffer.missing == (FIRST_L1 + added, 160), "what is taken does not count"


def test_a_reorg_is_seen_without_taking_the_block() -> None:
    l1, buffer = _l1(), _started(4, first=1)
    assert buffer.reorged(l1[0].header.hash) is None
    buffer.add(l1[1])
    assert buffer.reorged(l1[0].header.hash) is None
    other = _branch(l1[1])
    buffer.add(other)
    assert buffer.reorged(l1[0].header.hash) is None, "it is requested a second time"
    buffer.add(other)
    assert buffer.reorged(l1[0].header.hash) == other and len(buffer) == 1
