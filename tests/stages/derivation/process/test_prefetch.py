"""The prefetcher requests what derivation will need, and parses the same frames as the pipeline."""

import msgspec
import pytest

from rollup_node.stages.derivation.pipeline.deriver import Output
from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs, NeedDecoded
from rollup_node.stages.derivation.process import prefetch
from rollup_node.stages.derivation.process.prefetch import Prefetcher
from rollup_node.stages.messages.blobs import BlobContent
from tests.conformance.kit.chain import GENESIS, STRANGER, SYSTEM_CONFIG, blobs, forks_until
from tests.conformance.kit.notation import item, names
from tests.conformance.kit.planning import channel, plan
from tests.conformance.kit.rollup_chain import RollupChain

H1 = b"\1" * 32


def _started(chain: RollupChain) -> Prefetcher:
    """Return a prefetcher that has all L1 blocks of the chain."""
    prefetcher = Prefetcher(chain.config)
    prefetcher.start_at(chain.l1.blocks[0], SYSTEM_CONFIG)
    for block in chain.l1.blocks[1:]:
        assert prefetcher.add_block(block)
    return prefetcher


def _add_blobs(prefetcher: Prefetcher, chain: RollupChain) -> None:
    for need in prefetcher.needs():
        contents = [content for blob in need.blobs if (content := chain.blob(blob.hash)) is not None]
        assert prefetcher.add_blobs(need.block.hash, contents)


def test_keys_are_those_of_the_deriver() -> None:
    first, second = plan(GENESIS, 2)
    chain = RollupChain(forks_until("granite"))
    chain.mine(*channel("A", first.singular))
    chain.blobs[H1] = channel("B", second.singular)[0]
    chain.mine(inbox=[blobs([H1])])
    prefetcher = _started(chain)
    _add_blobs(prefetcher, chain)
    foreseen = [need.key for need in prefetcher.complete_channels(0)]
    needed: list[bytes] = []

    def note(output: Output) -> bool:
        if isinstance(output, NeedDecoded):
            needed.append(output.key)
        return False

    chain.run(until=note)
    assert foreseen == needed
    assert len(foreseen) == 2


def test_the_pipeline_takes_over_the_parsed_frames() -> None:
    """Each once; what belongs to earlier blocks is discarded with them."""
    chain = RollupChain(forks_until("granite"))
    first = chain.mine(item("A0"))
    chain.blobs[H1] = item("B0")
    second = chain.mine(inbox=[blobs([H1])])
    third = chain.mine(item("C0"))
    prefetcher = _started(chain)
    assert prefetcher.take_frames(second.ref) is None
    assert prefetcher.take_frames(first.ref) is None, "a block before the one that was read"
    _add_blobs(prefetcher, chain)
    assert prefetcher.has_frames(second.header.hash)
    parsed = prefetcher.parsed_bytes
    frames = prefetcher.take_frames(second.ref)
    assert frames is not None and [names(item.frames) for item in frames.items] == ["B0"]
    size = sum(250 + len(frame.data) for item in frames.items for frame in item.frames)
    assert parsed == 2 * size, "the third block is parsed as well"
    assert (prefetcher.take_frames(second.ref), prefetcher.parsed_bytes) == (None, size)
    assert prefetcher.has_frames(third.header.hash)
    prefetcher.clear()
    assert not prefetcher.has_frames(third.header.hash)


def test_blocks_that_are_added_again_are_not_parsed_again() -> None:
    """After a reorg in the buffer the prefetcher starts again; with the same batcher the frames are those of before."""
    chain = RollupChain(forks_until("granite"))
    chain.blobs[H1] = item("B0")
    block = chain.mine(inbox=[blobs([H1])])
    prefetcher = _started(chain)
    _add_blobs(prefetcher, chain)
    prefetcher.stop()
    assert (prefetcher.at, prefetcher.needs()) == (None, [])
    prefetcher.start_after(chain.l1.blocks[0].ref, SYSTEM_CONFIG)
    assert prefetcher.add_block(block)
    assert prefetcher.needs() == []
    prefetcher.start_after(chain.l1.blocks[0].ref, msgspec.structs.replace(SYSTEM_CONFIG, batcher=STRANGER))
    assert prefetcher.add_block(block)
    frames = prefetcher.take_frames(block.ref)
    assert frames is not None and (frames.batcher, frames.items) == (STRANGER, ())


def test_blobs_of_other_blocks_are_refused() -> None:
    chain = RollupChain(forks_until("granite"))
    chain.mine(inbox=[blobs([H1])])
    prefetcher = _started(chain)
    (need,) = prefetcher.needs()
    wrong = [BlobContent(b"\2" * 32, item("B0"), None)]
    assert not prefetcher.add_blobs(need.block.hash, wrong)
    assert not prefetcher.add_blobs(H1, wrong)
    assert prefetcher.needs() == [NeedBlobs(need.block, need.blobs)]


def test_blocks_that_do_not_follow_are_refused() -> None:
    chain = RollupChain(forks_until("granite"))
    chain.mine_until(chain.head + 3)
    prefetcher = Prefetcher(chain.config)
    assert not prefetcher.add_block(chain.l1.blocks[1])
    prefetcher.start_at(chain.l1.blocks[0], SYSTEM_CONFIG)
    assert not prefetcher.add_block(chain.l1.blocks[2])
    prefetcher.stop()
    assert prefetcher.at is None


def test_channels_of_old_blocks_are_left_out() -> None:
    chain = RollupChain(forks_until("granite"))
    block = chain.mine(*channel("A", plan(GENESIS, 1)[0].singular))
    prefetcher = Prefetcher(chain.config)
    prefetcher.start_after(chain.l1.blocks[0].ref, SYSTEM_CONFIG)
    assert prefetcher.add_block(block)
    assert list(prefetcher.complete_channels(block.header.number)) == []


def test_blobs_are_parsed_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the first block always; the others when the frames before them are taken."""
    chain = RollupChain(forks_until("granite"))
    chain.blobs[H1] = item("A0")
    blocks = [chain.mine(inbox=[blobs([H1])]) for _ in range(3)]
    prefetcher = _started(chain)
    first, second, third = prefetcher.needs()
    contents = [content for content in [chain.blob(H1)] if content is not None]
    assert prefetcher.add_blobs(second.block.hash, contents)
    monkeypatch.setattr(prefetch, "MAX_PARSED", prefetcher.parsed_bytes - 1)
    assert not prefetcher.add_blobs(third.block.hash, contents)
    assert prefetcher.add_blobs(first.block.hash, contents)
    for block in blocks[:2]:
        assert prefetcher.take_frames(block.ref) is not None
    assert prefetcher.parsed_bytes == 0
    assert prefetcher.add_blobs(third.block.hash, contents)
