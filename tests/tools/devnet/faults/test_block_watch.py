"""The peer that records the signed blocks on gossip."""

import asyncio
from pathlib import Path

from rollup_node.stages.p2p.blocks.block_message import encode_signed_part
from rollup_node.tools.devnet.faults.block_watch import BlockWatch
from tests.support.p2p.blocks import CHAIN_ID, SIGNER
from tests.support.p2p.nodes import KEY, P2pNode, chain_of_now, now_block, run_scenario

VERSION = 4


def test_both_blocks_of_a_height_are_seen(tmp_path: Path) -> None:
    rollup = chain_of_now()
    blocks = [now_block(1), now_block(2), now_block(2, gas_used=5), now_block(1, gas_used=6), now_block(3)]

    async def scenario() -> None:
        async with P2pNode(2, rollup, tmp_path, sequencer_key=KEY).running() as node:
            watch = BlockWatch(rollup, SIGNER.address, [node.address])
            watching = asyncio.create_task(watch.run())
            try:
                await node.wait_for_mesh()
                for payload in blocks:
                    # Not by the node's publisher, which signs no second block for a height.
                    part = encode_signed_part(payload, VERSION)
                    assert node.stage.gossip.publish(payload, VERSION, part, SIGNER.sign(CHAIN_ID, part)) is None
                await node.until(lambda: sum(map(len, watch.hashes.values())) == len(blocks))
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
            hashes = [payload.block_hash for payload in blocks]
            assert watch.hashes == {1: {hashes[0], hashes[3]}, 2: {hashes[1], hashes[2]}, 3: {hashes[4]}}
            assert len(watch.arrivals) == 3 and watch.arrivals == sorted(watch.arrivals)

    run_scenario(scenario)
