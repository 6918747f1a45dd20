"""Blocks ahead, in any order, through reorgs."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.derivation.process.l1_buffer import L1Buffer


@pytest.fixture
def world(made: Any) -> Any:
    return made.World({})


def _branch(world: Any, number: int, parent: bytes | None = None) -> Any:
    """A block of another chain."""
    block = world.l1(number)
    header = msgspec.structs.replace(
        block.header, hash=b"other%27d" % number, parent_hash=parent or b"other%27d" % (number - 1)
    )
    return msgspec.structs.replace(block, header=header)


def test_blocks_are_given_out_in_order(world: Any) -> None:
    buffer = L1Buffer(4)
    buffer.restart(5)
    assert buffer.missing == (5, 4)
    assert buffer.take(None) is None
    for number in (6, 5, 8):
        assert buffer.add(world.l1(number))
    assert buffer.missing == (7, 2)
    assert [block.header.number for block in buffer.linked()] == [5, 6]
    assert buffer.take(world.l1(4).header.hash) == world.l1(5)
    assert buffer.missing == (7, 3)
    assert not buffer.add(world.l1(5))
    assert not buffer.add(world.l1(10))


def test_nothing_is_missing_in_a_full_window(world: Any) -> None:
    buffer = L1Buffer(2)
    buffer.restart(1)
    buffer.add(world.l1(1))
    buffer.add(world.l1(2))
    assert buffer.missing is None


def test_a_reorg_drops_the_neighbours(world: Any) -> None:
    buffer = L1Buffer(8)
    buffer.restart(1)
    for number in range(1, 5):
        buffer.add(world.l1(number))
    buffer.add(_branch(world, 3))
    assert buffer.missing == (1, 8)
    buffer.add(_branch(world, 2, world.l1(1).header.hash))
    buffer.add(world.l1(1))
    assert [block.header.hash[:5] for block in buffer.linked()][1:] == [b"other", b"other"]


def test_an_older_block_that_is_linked_wrongly_from_above(world: Any) -> None:
    buffer = L1Buffer(8)
    buffer.restart(1)
    for number in (1, 3, 4):
        buffer.add(world.l1(number))
    buffer.add(_branch(world, 2, world.l1(1).header.hash))
    assert [block.header.number for block in buffer.linked()] == [1, 2]


def test_a_block_that_does_not_follow_is_given_out_when_it_comes_again(world: Any) -> None:
    buffer = L1Buffer(8)
    buffer.restart(3)
    stranger = _branch(world, 3)
    parent = world.l1(2).header.hash
    buffer.add(stranger)
    assert buffer.take(parent) is None
    assert buffer.missing == (3, 8)
    buffer.add(world.l1(3))
    assert buffer.take(parent) == world.l1(3)
    buffer.restart(3)
    for _ in range(2):
        buffer.add(stranger)
        found = buffer.take(parent)
    assert found == stranger
