"""derivation-rules 19 and 20 by their conformance ids, played through the whole deriver."""

from typing import Any

import pytest

from rollup_node.stages.derivation.pipeline.outputs import Attributes
from rollup_node.stages.protocol.errors import CriticalError

OTHER = b"B" * 16


@pytest.fixture
def world(made: Any) -> Any:
    return made.World(made.forks_to("holocene"))


def test_stage_same_origin_discard(made: Any, world: Any) -> None:
    world.extend(5, 0)
    world.extend(1, 1)
    world.put_batches(1, world.singular(7, 1))
    assert made.told(world.run(1)) == ["discarded BS2"]
    world.put_batches(2, world.singular(7, 1, made.USER))
    assert made.told(world.run(2)) == ["7+1"]


def test_stage_low_window(made: Any, world: Any) -> None:
    """The safe head goes back without a reset: our own state contradicts itself."""
    world.extend(5, 0)
    world.extend(6, 1)
    world.run(1)
    world.safe = world.chain[3].ref
    with pytest.raises(CriticalError):
        world.deriver._pipeline.l1_window.blocks.clear()
        world.run(2)


def test_stage_span_partial(made: Any, world: Any) -> None:
    world.put_batches(1, world.span(1, 0, 0, 1), world.singular(3, 0))
    assert made.told(world.run(1)) == ["1+0", "2+0", "flushed V11"]


def test_stage_flush_keeps_next_tx(made: Any, world: Any) -> None:
    world.put_batches(1, world.singular(1, 0, parent=bytes(32)), world.singular(1, 0))
    world.put_batches(1, world.singular(1, 0, made.USER), channel=OTHER)
    assert made.told(world.run(1)) == ["flushed V4", "1+1"]


def test_stage_flush_keeps_queue(made: Any, world: Any) -> None:
    """Frames of the same transaction stay; the channel being put together goes."""
    bad = made.channel_body([world.singular(1, 0, parent=bytes(32))], made.Compression.ZLIB)
    good = made.channel_body([world.singular(1, 0, made.USER)], made.Compression.ZLIB)
    frames = [made.Frame(made.CHANNEL, 0, bad, True), made.Frame(OTHER, 0, good, True)]
    world.put(1, made.item(*frames))
    assert made.told(world.run(1)) == ["flushed V4", "1+1"]


def test_stage_past_keeps_channel(made: Any, world: Any) -> None:
    world.extend(2, 0)
    world.put_batches(1, world.singular(1, 0), world.singular(2, 0), world.singular(3, 0, made.USER))
    assert made.told(world.run(1)) == ["past V3", "past V3", "3+1"]


def test_stage_past_bad_hash(made: Any, world: Any) -> None:
    world.extend(2, 0)
    world.put_batches(1, world.singular(2, 0, parent=bytes(32)), world.singular(3, 0))
    assert made.told(world.run(1)) == ["past V3", "3+0"]


def test_stage_future_flush(made: Any, world: Any) -> None:
    world.put_batches(1, world.singular(2, 0, parent=bytes(32)), world.singular(1, 0))
    assert made.told(world.run(1)) == ["flushed V2"]
    assert made.told(world.run(20))[:1] == ["1+0"], "the empty block rule later"


def test_stage_parent_hash_flush(made: Any, world: Any) -> None:
    world.put_batches(1, world.singular(1, 0), world.singular(2, 0, parent=bytes(32)), world.singular(2, 0))
    assert made.told(world.run(1)) == ["1+0", "flushed V4"]


def test_stage_span_undecided_lost(made: Any, world: Any) -> None:
    world.put_batches(1, world.span(1, *[0] * 5, *[1] * 6, 2), world.singular(1, 0, made.USER))
    assert made.told(world.run(1)) == ["undecided PX10", "1+1"]


def test_stage_span_extract_old_epoch(made: Any, world: Any) -> None:
    """opt#18283: the overlap is as the chain is, the first new block has an epoch before the safe head's."""
    world.extend(5, 0)
    world.extend(1, 1)
    world.overlap_check = False
    world.put_batches(2, world.span(6, 0, 0, 1), world.singular(7, 1))
    assert made.told(world.run(2)) == ["flushed X2"]


def test_stage_span_then_eof(made: Any, world: Any) -> None:
    world.put_batches(1, world.span(1, 0, 0))
    assert made.told(world.run(1)) == ["1+0", "2+0"]
    world.put_batches(2, world.singular(3, 0, made.USER))
    assert made.told(world.run(2)) == ["3+1"]


def test_stage_last_flag(made: Any, world: Any) -> None:
    world.put_batches(1, world.span(1, 0, 0))
    assert [output.concluding for output in world.run(1)] == [True, True]


def test_stage_invalid_payload(made: Any, world: Any) -> None:
    """The block is replaced by its deposits; the rest of its span and channel goes, the next channel stays."""
    world.put_batches(1, world.span(1, 0, 0, 0), world.singular(2, 0))
    world.run(1, stop=lambda output: isinstance(output, Attributes))
    world._grow(world.chain[0].ref.l1_origin, (b"\x7einfo",))
    world.deriver.flush_for_deposits_only()
    world.put_batches(2, world.singular(2, 0, made.USER))
    assert made.told(world.run(2)) == ["discarded AQ3", "2+1"]


def test_stage_invalid_deposits_only(world: Any) -> None:
    """A replacement of what was not derived is a contradiction."""
    world.start()
    with pytest.raises(CriticalError):
        world.deriver.flush_for_deposits_only()


def test_stage_forced_empty(made: Any) -> None:
    world = made.World(made.forks_to("holocene"), seq_window_size=3)
    found = world.run(3)
    assert made.told(found) == [f"{number}+0" for number in range(1, 6)]
    assert all(output.concluding for output in found)
    assert made.told(world.run(4)) == [f"{number}+0" for number in range(6, 12)]


@pytest.mark.parametrize("check", [True, False], ids=["N1", "tag"])
def test_full_overlap_holocene_tag(made: Any, world: Any, check: bool) -> None:
    world.overlap_check = check
    world.extend(3, 0, made.USER)
    world.put_batches(1, world.span(2, 0, 0, 0, 0), world.singular(4, 0))
    expected = ["flushed FU7"] if check else ["4+0", "5+0", "past V3"]
    assert made.told(world.run(1)) == expected


def test_an_equal_overlap_is_fine(made: Any, world: Any) -> None:
    user = made.rlp_transaction(world.config.l2_chain_id)
    world.extend(3, 0, user)
    world.put_batches(1, world.span(2, 0, 0, 0, transactions=[[user], [user], [user]]))
    assert made.told(world.run(1)) == ["4+1"]


def test_prefix_old_holocene(made: Any, world: Any) -> None:
    world.extend(3, 0)
    world.put_batches(1, world.span(2, 0, 0), world.span(4, 0))
    assert made.told(world.run(1)) == ["past PX5", "4+0"]


def test_prefix_future_holocene(made: Any, world: Any) -> None:
    world.put_batches(1, world.span(2, 0), world.span(1, 0))
    assert made.told(world.run(1)) == ["flushed PX4"]


@pytest.mark.parametrize("answers", [True, False])
def test_l2_blocks_are_asked_for_until_they_come(made: Any, world: Any, answers: bool) -> None:
    world.extend(3, 0)
    world.answers_l2 = answers
    world.put_batches(1, world.span(2, 0, 0, 0), world.singular(4, 0, made.USER))
    assert made.told(world.run(1)) == (["4+0", "past V3"] if answers else ["undecided PX6c", "4+1"])
