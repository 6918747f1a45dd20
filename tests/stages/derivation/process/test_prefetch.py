"""What is read ahead is what derivation will need."""

from typing import Any

from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs, NeedDecoded
from rollup_node.stages.derivation.process.prefetch import LookAhead


def test_foresees_the_needs_of_the_recorded_blocks(recording: Any) -> None:
    look_ahead = LookAhead(recording.config)
    system = recording.config.genesis.system_config
    numbers = sorted(recording.l1_blocks)
    look_ahead.start_at(recording.l1_blocks[numbers[0]], system)
    for number in numbers[1:]:
        assert look_ahead.add_block(recording.l1_blocks[number])
    assert look_ahead.at == recording.l1_blocks[numbers[-1]].ref
    needs = look_ahead.needs()
    assert sum(len(need.blobs) for need in needs) == 6
    assert not any(look_ahead.complete_channels(0) for _ in range(0))
    before = list(look_ahead.complete_channels(0))
    for need in reversed(needs):
        look_ahead.add_blobs(need.block.hash, recording.contents(need.blobs))
    channels = [*before, *look_ahead.complete_channels(0)]
    assert len(channels) == len({span["channel"] for span in recording.expected["spans"]})
    assert look_ahead.needs() == []


def test_keys_are_those_of_the_deriver(made: Any) -> None:
    world = made.World(made.forks_to("granite"))
    world.put_batches(1, world.singular(1, 0))
    world.put_blobs(2, world.inbox[1][0].data)
    look_ahead = LookAhead(world.config)
    look_ahead.start_at(world.l1(0), world.config.genesis.system_config)
    for number in (1, 2):
        look_ahead.add_block(world.l1(number))
    for need in look_ahead.needs():
        look_ahead.add_blobs(need.block.hash, [world.blobs[blob.hash] for blob in need.blobs])
    foreseen = [need.key for need in look_ahead.complete_channels(0)]
    needed: list[Any] = []

    def note(output: Any) -> bool:
        if isinstance(output, NeedDecoded | NeedBlobs):
            needed.append(output)
        return False

    world.run(2, note)
    assert foreseen == [need.key for need in needed if isinstance(need, NeedDecoded)]
    assert len(foreseen) == 2


def test_channels_of_old_blocks_are_left_out(made: Any) -> None:
    world = made.World(made.forks_to("granite"))
    world.put_batches(1, world.singular(1, 0))
    look_ahead = LookAhead(world.config)
    look_ahead.start_behind(world.l1(0).ref, world.config.genesis.system_config)
    assert look_ahead.add_block(world.l1(1))
    assert list(look_ahead.complete_channels(1)) == []


def test_blocks_that_do_not_follow_are_refused(made: Any) -> None:
    world = made.World(made.forks_to("granite"))
    look_ahead = LookAhead(world.config)
    assert not look_ahead.add_block(world.l1(1))
    look_ahead.start_at(world.l1(1), world.config.genesis.system_config)
    assert not look_ahead.add_block(world.l1(3))
    look_ahead.stop()
    assert look_ahead.at is None
