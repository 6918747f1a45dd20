"""An engine that comes back from a restart without its last blocks: the process notices by the first answer that leaves
doubt, starts anew where the engine is, and goes on."""

import time
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.messages.control import StartSequencerRequest, StopSequencerRequest
from rollup_node.stages.messages.engine import AttributesReady
from tests.support.engine_node import EngineNode, follow


def unsafe(node: EngineNode) -> int:
    """The number of the unsafe head; -1 while there is none."""
    return -1 if node.status is None or node.status.unsafe is None else node.status.unsafe.number


def test_a_verifier_takes_the_lost_blocks_from_its_peers_again(world: Any, engine: Any, run: Any) -> None:
    refs = follow(world, engine, 5)
    blocks = [None, *(world.payloads[ref.hash] for ref in [*refs, *world.chain(6)[6:]][1:])]

    async def scene(node: EngineNode) -> None:
        await node.until(lambda: unsafe(node) == 5)
        engine.lose(2)
        await node.gossip(blocks[6])
        await node.until(lambda: unsafe(node) == 2)
        assert any("answers SYNCING" in str(error) for error in node.errors)
        await node.gossip(*blocks[3:6])
        await node.until(lambda: unsafe(node) == 6)

    run(scene, p2p=True)


def test_derivation_builds_the_lost_blocks_again(world: Any, engine: Any, run: Any) -> None:
    refs = follow(world, engine, 5, safe=5)

    async def scene(node: EngineNode) -> None:
        first = await node.start()
        parent = node.status.unsafe if node.status is not None else None
        for sequence, ref in enumerate(refs[1:], start=1):
            await node.derive(first, sequence, refs[sequence - 1], world.attributes(refs[sequence - 1], 100), 101)
            assert node.applied[-1].safe_head == ref
        assert parent == refs[5]
        engine.lose(3)
        attributes = world.attributes(refs[5], 100)
        message = AttributesReady(first.reset, 6, refs[5], attributes, world.l1_ref(101), True)
        await node.until(lambda: len(node.starts) > 1, lambda: node.blocks.send(message))
        again = node.starts[-1]
        await node.until(lambda: unsafe(node) == 3)
        assert again.safe_head.number <= 3
        for sequence, at in enumerate(range(again.safe_head.number, 5), start=1):
            await node.derive(again, sequence, refs[at], world.attributes(refs[at], 100), 101)
        assert engine.head == refs[5].hash and unsafe(node) == 5

    run(scene)


@pytest.mark.parametrize("known", [True, False], ids=["head at hand", "head of before"])
def test_a_sequencer_goes_on_from_where_the_engine_is(
    known: bool, make_world: Any, play: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    world = make_world(block_time=1)
    engine = make_world.engine(world)
    engine.head = world.genesis.hash
    real = time.time
    begun = real()
    monkeypatch.setattr("rollup_node.stages.engine.process.stage.time.time", lambda: 1_000 + 5 * (real() - begun))

    async def scene() -> None:
        config = {"sequencer_enabled": True, "sequencer_l1_confs": 0}
        async with engine.serving(), EngineNode(world, engine, tmp_path, **config).running() as node:
            await node.until(lambda: len(engine.chain()) >= 4)
            assert (await node.ask(StopSequencerRequest(1))).error is None
            last = engine.head
            height = len(engine.chain())
            if not known:
                node.stage.tip_config = None
            assert (await node.ask(StartSequencerRequest(2, last))).error is None
            engine.lose(2)
            await node.until(lambda: len(engine.chain()) >= height + 1)
            assert node.errors and engine.head not in engine.lost
            times = [payload.timestamp for _, payload in sorted(engine.chain().items())]
            assert times == list(range(1_001, 1_001 + len(times)))

    play(scene())
