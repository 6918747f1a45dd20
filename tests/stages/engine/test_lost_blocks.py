"""An engine that comes back from a restart without its last blocks: its first SYNCING answer shows it, a new
start is found where the engine is, the p2p process has what this node published, and the chain goes on from there.
And one that has its first blocks without their transactions."""

import pytest

from rollup_node.stages.messages.control import PostUnsafePayloadRequest, StartSequencerRequest, StopSequencerRequest
from tests.stages.engine.conftest import RunOn
from tests.support.chains.chain_fixture import chain_with
from tests.support.engine.engine_node import EngineNode, chain_clock
from tests.support.engine.fake_engine import EngineFailure, FakeExecutionEngine, block_json, sequencing_engine


@pytest.mark.fault("F44")
async def test_an_engine_without_old_transactions_and_labels_is_a_start(run_on: RunOn) -> None:
    """[STA2] 150 blocks behind the tip it has no whole block, 18 behind it all that derivation needs."""
    chain = chain_with(l1_step=2, seq_window_size=2)
    engine = FakeExecutionEngine(chain)
    refs = chain.build(200, per_epoch=1)
    engine.head, engine.pruned = refs[200].hash, 120
    async with run_on(engine)(offset_el_safe=300.0) as node:
        node.move_l1(refs[200].l1_origin.number)
        result = await node.start()
        assert (result.safe_head, result.base) == (refs[182], refs[132].l1_origin)
        await node.until(lambda: node.status is not None and node.status.finalized == refs[182])
        assert node.unsafe == 200 and node.failures == []


@pytest.mark.fault("F44")
@pytest.mark.parametrize("label", ["safe", "finalized"])
async def test_a_label_whose_block_has_no_transactions_is_not_absent(label: str, run_on: RunOn) -> None:
    """[STA18] With genesis in its place blocks that nobody has posted would be safe, and final."""
    chain = chain_with(l1_step=2, seq_window_size=2)
    engine = FakeExecutionEngine(chain)
    refs = chain.build(200, per_epoch=1)
    engine.head, engine.safe, engine.finalized = (refs[number].hash for number in (200, 50, 50))
    known = [] if label == "finalized" else [block_json(chain.payloads[engine.finalized])]
    engine.answers["eth_getBlockByNumber"] = [*known, EngineFailure(4444, "pruned history unavailable")]
    words = f"pruned history unavailable (its {label} block)"
    async with run_on(engine)(offset_el_safe=100.0) as node:
        node.move_l1(refs[200].l1_origin.number)
        await node.until(lambda: any(words in line for line in node.failures))


@pytest.mark.parametrize("known", [True, False], ids=["sequenced head", "posted head"])
async def test_a_sequencer_goes_on_from_where_the_engine_is(known: bool, run_on: RunOn) -> None:
    """Without a p2p process that has its blocks.

    A head that it sequenced is built on without being read; another one is read, and found to be lost."""
    engine = sequencing_engine()
    chain = engine.chain
    async with run_on(engine)(clock=chain_clock(speed=5), sequencer_enabled=True, sequencer_l1_confs=0) as node:
        await node.until(lambda: len(engine.canonical()) >= 4)
        assert (await node.admin(StopSequencerRequest(1))).error is None
        if not known:
            assert node.stage.core.heads is not None
            tip = node.stage.core.heads.unsafe
            posted = chain.seal(tip, chain.attributes(tip, tip.l1_origin.number, [chain.user]))
            await node.admin(PostUnsafePayloadRequest(2, posted))
            await node.until(lambda: engine.head == posted.block_hash)
            await node.until(lambda: node.unsafe == posted.block_number)
        last, height = engine.head, len(engine.canonical())
        engine.lose(2)
        assert (await node.admin(StartSequencerRequest(3, last))).error is None
        await node.until(lambda: len(engine.canonical()) >= height + 1)
        assert engine.head not in engine.lost
        assert any(("answers SYNCING" if known else "has lost its head") in line for line in node.failures)
        times = [payload.timestamp for _, payload in sorted(engine.canonical().items())]
        assert times == list(range(1_001, 1_001 + len(times)))


SEQUENCER = {"sequencer_enabled": True, "sequencer_l1_confs": 0, "p2p": True}


async def test_a_sequencer_puts_its_published_blocks_back(run_on: RunOn) -> None:
    """[SEQ39] Again and again, and though its engine would build other blocks."""
    engine = sequencing_engine()

    async def publish(node: EngineNode, count: int) -> None:
        wanted = len(node.published) + count
        await node.until(lambda: len(node.published) >= wanted)

    async with run_on(engine)(clock=chain_clock(speed=5), **SEQUENCER) as node:
        for count in (1, 2, 3):
            await publish(node, 4)
            engine.pool = [engine.chain.user] * count
            engine.lose(max(engine.canonical()) - count)
        await publish(node, 2)
        numbers = [request.payload.block_number for request in node.published]
        assert numbers == list(range(1, len(numbers) + 1)), "no height was published twice"
        published = {request.payload.block_number: request.payload for request in node.published}
        canonical = engine.canonical()
        # The engine may have the newest block before the message that publishes it arrives here.
        assert all(published[number] == canonical[number] for number in published.keys() & canonical.keys())
