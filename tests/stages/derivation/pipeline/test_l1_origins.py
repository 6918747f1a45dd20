"""The window of L1 blocks (derivation-rules 17)."""

from typing import Any

import msgspec

from rollup_node.stages.derivation.pipeline.l1_origins import Epochs


def _head(world: Any, number: int, epoch: int) -> Any:
    origin = world.l1(epoch).ref.id
    return msgspec.structs.replace(world.safe, number=number, timestamp=1000 + 2 * number, l1_origin=origin)


def test_epochs_are_noted_and_forgotten(made: Any) -> None:
    world = made.World({})
    epochs = Epochs(world.l1(0))
    assert not epochs.observe(world.l1(0), _head(world, 0, 0))
    for number in (1, 2, 3):
        epochs.observe(world.l1(number), _head(world, 0, 0))
    assert [block.header.number for block in epochs.blocks] == [0, 1, 2, 3]
    epochs.observe(world.l1(3), _head(world, 20, 2))
    assert (epochs.first_number, len(epochs)) == (2, 2)
    assert epochs.observe(world.l1(4), _head(world, 99, 5)), "behind"
    assert epochs.blocks == []
    assert not epochs.observe(world.l1(5), _head(world, 99, 5))
    assert epochs.first_number == 5
    assert epochs.block(4) is None


def test_origin_that_is_only_equal_by_number_does_not_fit(made: Any) -> None:
    world = made.World({})
    epochs = Epochs(world.l1(0))
    head = _head(world, 0, 0)
    assert epochs.mismatch(head) is None
    stranger = msgspec.structs.replace(head, l1_origin=msgspec.structs.replace(head.l1_origin, hash=bytes(32)))
    assert epochs.mismatch(stranger) is not None
