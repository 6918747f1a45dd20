"""The window of L1 blocks (derivation-rules 17)."""

from typing import Any

import msgspec

from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow


def _head(world: Any, number: int, epoch: int) -> Any:
    origin = world.l1(epoch).ref.id
    return msgspec.structs.replace(world.safe, number=number, timestamp=1000 + 2 * number, l1_origin=origin)


def test_epochs_are_noted_and_forgotten(made: Any) -> None:
    world = made.World({})
    l1_window = L1OriginWindow(world.l1(0))
    assert not l1_window.advance_origin(world.l1(0), _head(world, 0, 0))
    for number in (1, 2, 3):
        l1_window.advance_origin(world.l1(number), _head(world, 0, 0))
    assert [block.header.number for block in l1_window.blocks] == [0, 1, 2, 3]
    l1_window.advance_origin(world.l1(3), _head(world, 20, 2))
    assert (l1_window.first_number, len(l1_window)) == (2, 2)
    assert l1_window.advance_origin(world.l1(4), _head(world, 99, 5)), "behind"
    assert l1_window.blocks == []
    assert not l1_window.advance_origin(world.l1(5), _head(world, 99, 5))
    assert l1_window.first_number == 5
    assert l1_window.block(4) is None


def test_origin_that_is_only_equal_by_number_does_not_fit(made: Any) -> None:
    world = made.World({})
    l1_window = L1OriginWindow(world.l1(0))
    head = _head(world, 0, 0)
    assert l1_window.mismatch(head) is None
    stranger = msgspec.structs.replace(head, l1_origin=msgspec.structs.replace(head.l1_origin, hash=bytes(32)))
    assert l1_window.mismatch(stranger) is not None
