"""derivation-rules 17 and 18 by their conformance ids, played through the whole deriver.

L1 block n has time 1000 + 12 n, L2 block n 1000 + 2 n: blocks 1 to 5 can have origin 0 only."""

from typing import Any

import pytest

from rollup_node.stages.derivation.pipeline.outputs import Attributes, NeedReset
from rollup_node.stages.messages.derivation import DropEffect


@pytest.fixture
def world(made: Any) -> Any:
    return made.World(made.forks_to("granite"))


def _parent(world: Any, number: int) -> bytes:
    parent: bytes = world.chain[number].ref.hash
    return parent


def _predict(made: Any, world: Any, *blocks: tuple[int, int, int]) -> list[bytes]:
    """The hashes that these blocks (number, epoch, users) will have: found by deriving them from sure batches."""
    other = made.World(world.config.fork_times, seq_window_size=world.config.seq_window_size)
    hashes = []
    for place, (number, epoch, users) in enumerate(blocks):
        other.put_batches(place + 1 + epoch, other.singular(number, epoch, *[made.USER] * users))
        other.run(place + 1 + epoch)
        hashes.append(_parent(other, number))
    return hashes


def test_queue_order(made: Any, world: Any) -> None:
    first = _predict(made, world, (1, 0, 0))[0]
    world.put_batches(1, world.singular(2, 0, parent=first), world.singular(1, 0))
    assert made.told(world.run(1)) == ["1+0", "2+0"]


def test_queue_first_seen_wins(made: Any, world: Any) -> None:
    world.put_batches(1, world.singular(1, 0, made.USER), world.singular(1, 0, made.USER, made.USER))
    assert made.told(world.run(1)) == ["1+1", "dropped V3"]


def test_queue_drop_then_valid(made: Any, world: Any) -> None:
    world.put_batches(1, world.singular(1, 0, parent=bytes(32)), world.singular(1, 0, made.USER))
    assert made.told(world.run(1)) == ["dropped V4", "1+1"]


def test_queue_undecided_blocks(made: Any, world: Any) -> None:
    """The span ends in an epoch that is known only at L1 block 3; the batch behind it waits."""
    world.put_batches(1, world.span(1, *[0] * 5, *[1] * 6, *[2] * 6, *[3]), world.singular(1, 0, made.USER))
    assert made.told(world.run(2)) == []
    assert world.deriver.stalled_by is not None
    assert world.deriver.stalled_by.rule == "PX10"
    found = made.told(world.run(3))
    assert found[:2] == ["1+0", "2+0"]
    assert world.deriver.stalled_by is None


def test_queue_behind_discard(made: Any, world: Any) -> None:
    """Batches read before the safe head's origin are not even decoded."""
    world.extend(5, 0)
    world.extend(6, 1)
    world.extend(1, 2)
    world.put_batches(1, world.singular(13, 2))
    world.put_batches(2, world.singular(13, 2), channel=b"B" * 16)
    found = world.run(2)
    assert made.told(found) == ["discarded BS2", "13+0"]


def test_queue_forced_equal(made: Any) -> None:
    world = made.World(made.forks_to("granite"), seq_window_size=3)
    assert made.told(world.run(2)) == []
    assert made.told(world.run(3)) == [f"{number}+0" for number in range(1, 6)]


def test_queue_forced_not_yet(made: Any) -> None:
    world = made.World(made.forks_to("granite"), seq_window_size=3)
    world.put_batches(3, world.singular(1, 0, made.USER))
    assert made.told(world.run(3))[:2] == ["1+1", "2+0"]


def test_queue_forced_first_of_epoch(made: Any) -> None:
    """L2 time is ahead of L1: one empty block for each epoch, whatever its time."""
    world = made.World(made.forks_to("granite"), seq_window_size=3)
    world.extend(20, 0)
    assert made.told(world.run(3)) == [], "epoch 0 is full and given up"
    found = world.run(4)
    assert made.told(found) == ["21+0"]
    assert world.safe.l1_origin.number == 1


def test_queue_forced_needs_next(made: Any) -> None:
    world = made.World(made.forks_to("granite"), seq_window_size=1)
    assert made.told(world.run(0)) == []
    assert made.told(world.run(1))[0] == "1+0"


def test_queue_advance_then_wait(made: Any) -> None:
    """E8: after the last block of epoch 0, one more L1 block is read before epoch 1 is judged."""
    world = made.World(made.forks_to("granite"), seq_window_size=3)
    assert made.told(world.run(3))[-1] == "5+0"
    assert made.told(world.run(4)) == [f"{number}+0" for number in range(6, 12)]


def test_queue_late_batch_after_advance(made: Any) -> None:
    world = made.World(made.forks_to("granite"), seq_window_size=3)
    world.run(3)
    world.put_batches(4, world.singular(6, 1, made.USER))
    assert made.told(world.run(4))[:2] == ["6+1", "7+0"]


def test_queue_skip_epoch_singular(made: Any) -> None:
    """H2: an epoch is left out; the L1 hashes do not link, and that asks for a reset."""
    world = made.World(made.forks_to("granite"), seq_window_size=3)
    world.extend(20, 0)
    world.run(3)
    world.put_batches(4, world.singular(21, 2))
    assert made.told(world.run(4)) == ["reset AQ2", "reset AQ2"]


def test_queue_reset_origin_mismatch(made: Any, world: Any) -> None:
    world.extend(5, 0)
    world.extend(6, 1)
    world.extend(1, 2)
    deriver = world.start(0)
    world.run(3)
    world.safe = world.chain[3].ref
    assert made.told(world.run(5)) == ["reset E6", "reset E6"]
    assert isinstance(deriver.step(world.safe, world.config.genesis.system_config), NeedReset)


def test_queue_span_pop(made: Any, world: Any) -> None:
    world.put_batches(1, world.span(1, 0, 0, 0))
    found = world.run(1)
    assert [(output.parent.number, output.concluding) for output in found] == [(0, False), (1, False), (2, True)]
    assert all(output.derived_from.number == 1 for output in found)


def test_queue_span_parent_jump(made: Any, world: Any) -> None:
    """The second block is refused: the rest of the span does not fit its parent's time."""
    world.put_batches(1, world.span(1, 0, 0, 0))
    found = world.run(1, stop=lambda output: isinstance(output, Attributes) and output.parent.number == 1)
    assert made.told(found) == ["1+0", "2+0"]
    world.deriver.attributes_refused()
    assert made.told(world.run(1)) == ["discarded X6"]


def test_a_refused_block_is_derived_again_from_the_queue(made: Any, world: Any) -> None:
    world.put_batches(1, world.singular(1, 0, made.USER), world.singular(1, 0))
    world.run(1, stop=lambda output: isinstance(output, Attributes))
    world.deriver.attributes_refused()
    assert made.told(world.run(1)) == ["1+0"]


def test_full_all_or_nothing(made: Any, world: Any) -> None:
    """Its third block has an epoch whose time has not come: none of the three is taken."""
    world.put_batches(1, world.span(1, 0, 0, 1))
    assert made.told(world.run(1)) == ["dropped V11"]


def test_batches_wait_with_their_own_inclusion_block(made: Any) -> None:
    """BQ12: a batch for block 12 that came in time is still in time when its turn comes."""
    world = made.World(made.forks_to("granite"), seq_window_size=4)
    hashes = _predict(made, world, (1, 0, 0))
    world.put_batches(3, world.singular(2, 0, made.USER, parent=hashes[0]))
    world.put_batches(4, world.singular(1, 0), channel=b"B" * 16)
    assert made.told(world.run(4))[:3] == ["1+0", "2+1", "3+0"]


def test_an_overlapping_span_is_compared(made: Any, world: Any) -> None:
    world.extend(3, 0, made.USER)
    world.put_batches(1, world.span(2, 0, 0, 0, 0))
    world.put_batches(2, world.span(4, 0, 0), channel=b"B" * 16)
    assert made.told(world.run(2)) == ["dropped FU7", "4+0", "5+0"]


def test_an_overlap_that_cannot_be_judged_waits(made: Any, world: Any) -> None:
    world.extend(3, 0)
    world.put_batches(1, world.span(2, 0, 0, 0, 0))
    world.answers_l2 = False
    assert made.told(world.run(1)) == []
    world.answers_l2 = True
    assert made.told(world.run(2)) == ["4+0", "5+0"]


def test_zip_zlib_pre_fjord_and_brotli_pre_fjord(made: Any) -> None:
    world = made.World(made.forks_to("ecotone", fjord=made.l1_time(2)))
    world.put_batches(1, world.singular(1, 0, made.USER), brotli=True)
    found = world.run(1)
    assert made.told(found) == ["ended RD3"]
    assert found[0].effect is DropEffect.ENDED
    world.put_batches(2, world.singular(1, 0), brotli=True)
    assert made.told(world.run(2)) == ["1+0"], "zip_brotli_batch_pre_fjord: the clock is L1's"


def test_rlp_span_pre_delta_then_good(made: Any) -> None:
    world = made.World(made.forks_to("canyon", delta=made.l1_time(2)))
    world.put_batches(1, world.span(1, 0), world.singular(1, 0, made.USER))
    assert made.told(world.run(1)) == ["dropped BE5", "1+1"]


def test_prefix_pre_delta_origin(made: Any) -> None:
    """Read after Delta, but its epoch is older."""
    world = made.World(made.forks_to("canyon", delta=made.l1_time(1)))
    world.put_batches(1, world.span(1, 0))
    assert made.told(world.run(1)) == ["dropped PX3"]
