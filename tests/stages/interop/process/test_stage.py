"""The interop process over chains and an L1 that are served in one process [VR1 to VR15, IV2 to IV8, RA1, RA2]."""

import contextlib
from pathlib import Path

from tests.support.interop.running_stage import Node, node_of
from tests.support.interop.values import GENESIS_TIME, dependency_set, member
from tests.support.interop.world import L1_STEP, truth

TWO = dependency_set(member(1), member(2, block_time=2), activation=GENESIS_TIME + 2, window=5)
THREE = dependency_set(member(1), member(2), member(3, block_time=2), activation=GENESIS_TIME, window=8)


def derivable(node: Node) -> int:
    """Return the last second for which all chains can have their block by L1 as it is."""
    time = GENESIS_TIME
    while all(
        node.world.source(chain_id, height) < len(node.world.l1)
        for chain_id, height in node.config.heights_at(time + 1).items()
    ):
        time += 1
    return time


async def assert_true(node: Node) -> int:
    """Wait until all that can be verified is, and compare all rounds with the truth; returns how many there are."""
    node.follow()
    last = derivable(node)
    await node.until_verified(last)
    await node.stop()
    rounds = truth(node.world, node.first, last)
    with contextlib.closing(node.opened_store()) as store:
        for timestamp, wanted in rounds.items():
            result = store.round_at(timestamp)
            assert result is not None and (result.l1, result.heads) == tuple(wanted), timestamp
    await node.start()
    return len(rounds)


async def test_heads_move_on_second_by_second(tmp_path: Path) -> None:
    async with node_of(TWO, 7, tmp_path / "interop") as node:
        for _ in range(4):
            node.grow()
            node.follow()
            await node.until_verified(derivable(node))
        assert await assert_true(node) >= 4 * L1_STEP
