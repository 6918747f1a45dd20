"""What becomes final by rounds, as L1 finalizes blocks, replaces them, or says nothing of it [LB4, VR13]."""

from functools import partial
from pathlib import Path

import pytest

from rollup_node.stages.interop.process import stage
from rollup_node.stages.protocol.types import BlockId
from tests.support.interop.running_stage import TWO, Node, derivable, node_of, verify_all
from tests.support.interop.served_world import ServedWorld
from tests.support.interop.values import GENESIS_TIME, dependency_set, member
from tests.support.interop.world import truth

PAIR = dependency_set(member(1), member(2), activation=GENESIS_TIME, window=100)


def are_final(node: Node, heads: dict[int, BlockId]) -> bool:
    return {chain_id: node.verdict(chain_id).final for chain_id in node.chains} == heads


async def test_what_l1_has_finalized_is_final(tmp_path: Path) -> None:
    """[LB4]: the head of the last round with an L1 block at or below it."""
    async with node_of(ServedWorld(TWO, 3), tmp_path / "interop") as node:
        node.grow(4)
        await verify_all(node)
        assert all(node.verdict(chain_id).final is None for chain_id in node.chains)
        rounds = truth(node.world, node.first, derivable(node)).values()
        for number in sorted({l1.number for l1, _ in rounds}):
            node.finalize(number)
            wanted = [heads for l1, heads in rounds if l1.number <= number][-1]
            await node.until(partial(are_final, node, wanted))


async def test_no_later_round_is_final_while_l1_has_no_finalized_block(tmp_path: Path) -> None:
    """[LB4, FIN9, LCP16]: its number alone says nothing of L1 blocks that are read later; also over a restart."""
    async with node_of(ServedWorld(TWO, 3, {}), tmp_path / "interop") as node:
        node.grow(2)
        await verify_all(node)
        node.grow(8)
        node.finalize(len(node.world.l1) - 1)
        await node.until(lambda: node.verdict(1).final is not None)
        final = {chain_id: node.verdict(chain_id).final for chain_id in node.chains}
        node.finalize(0)
        await node.until(lambda: not node.stage._l1.final)
        await verify_all(node)
        assert {chain_id: node.verdict(chain_id).final for chain_id in node.chains} == final
        await node.stop()
        await node.start()
        last = await verify_all(node)
        assert {chain_id: node.verdict(chain_id).final for chain_id in node.chains} == final
        node.finalize(len(node.world.l1) - 1)
        await node.until(lambda: node.verdict(1).final == node.verdict(1).verified)
        assert node.verdicts.timestamp == last


@pytest.mark.parametrize("at_once", [1, stage.MAX_ROUNDS])
async def test_rounds_below_l1_finality_are_final_as_they_are_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """[LB4]: as in a node that was off for an hour; L1's finalized block does not move meanwhile."""
    monkeypatch.setattr(stage, "MAX_ROUNDS", at_once)
    async with node_of(ServedWorld(TWO, 3, {}), tmp_path / "interop") as node:
        node.grow(8)
        node.finalize(len(node.world.l1) - 1)
        await verify_all(node)
        await node.until(lambda: node.verdict(1).final == node.verdict(1).verified)


async def test_what_l1_has_replaced_is_never_final(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[VR13, LB4, RA1]: as after an hour off, the number of L1's finalized block is beyond it at once."""
    monkeypatch.setattr(ServedWorld, "content", lambda world, chain_id, number, variant: (variant,))
    async with node_of(ServedWorld(PAIR, 3), tmp_path / "interop") as node:
        node.grow(6)
        await verify_all(node)
        verified = {chain_id: node.verdict(chain_id).verified for chain_id in node.chains}
        node.world.finalized = len(node.world.l1) - 1
        node.grow(6, drop=4)
        await verify_all(node)
        await node.until(lambda: node.verdict(1).final is not None)
        assert node.meter_value("supernode_interop_rewinds_total") > 0
        for chain_id, chain in node.chains.items():
            blocks = [block.ref.id for block in chain.blocks()]
            assert verified[chain_id] not in blocks
            final = {verdicts.chains[chain_id].final for verdicts in chain.verdicts}
            assert final - {None} <= set(blocks)
