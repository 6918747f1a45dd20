"""What is read ahead is what derivation will need."""

from typing import Any

from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs, NeedDecoded
from rollup_node.stages.derivation.process.prefetch import Prefetcher


def test_foresees_the_needs_of_the_recorded_blocks(recording: Any) -> None:
    prefetcher = Prefetcher(recording.config)
    system = recording.config.genesis.system_config
    numbers = sorted(recording.l1_blocks)
    prefetcher.start_at(recording.l1_blocks[numbers[0]], system)
    for number in numbers[1:]:
        assert prefetcher.add_block(recording.l1_blocks[number])
    assert prefetcher.at == recording.l1_blocks[numbers[-1]].ref
    needs = prefetcher.needs()
    assert sum(len(need.blobs) for need in needs) == 6
    assert not any(prefetcher.complete_channels(0) for _ in range(0))
    before = list(prefetcher.complete_channels(0))
    for need in reversed(needs):
        prefetcher.add_blobs(need.block.hash, recording.contents(need.blobs))
    channels = [*before, *prefetcher.complete_channels(0)]
    assert len(channels) == len({span["channel"] for span in recording.expected["spans"]})
    assert prefetcher.needs() == []


def test_keys_are_those_of_the_deriver(made: Any) -> None:
    world = made.World(made.forks_to("granite"))
    world.put_batches(1, world.singular(1, 0))
    world.put_blobs(2, world.inbox[1][0].data)
    prefetcher = Prefetcher(world.config)
    prefetcher.start_at(world.l1(0), world.config.genesis.system_config)
    for number in (1, 2):
        prefetcher.add_block(world.l1(number))
    for need in prefetcher.needs():
        prefetcher.add_blobs(need.block.hash, [world.blobs[blob.hash] for blob in need.blobs])
    foreseen = [need.key for need in prefetcher.complete_channels(0)]
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
    prefetcher = Prefetcher(world.config)
    prefetcher.start_after(world.l1(0).ref, world.config.genesis.system_config)
    assert prefetcher.add_block(world.l1(1))
    assert list(prefetcher.complete_channels(1)) == []


def test_blocks_that_do_not_follow_are_refused(made: Any) -> None:
    world = made.World(made.forks_to("granite"))
    prefetcher = Prefetcher(world.config)
    assert not prefetcher.add_block(world.l1(1))
    prefetcher.start_at(world.l1(1), world.config.genesis.system_config)
    assert not prefetcher.add_block(world.l1(3))
    prefetcher.stop()
    assert prefetcher.at is None
