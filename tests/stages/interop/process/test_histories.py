"""Histories of the interop process at random: L1 changes, chains lag, are away or restarted, as the process itself."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rollup_node.stages.interop.config import InteropConfig
from tests.support.interop.running_stage import LATER, THREE, TWO, Node, assert_true, node_of, verify_all
from tests.support.interop.served_world import ServedWorld

ACTIONS = st.one_of(
    st.tuples(st.just("grow"), st.integers(1, 2)),
    st.tuples(st.just("grow"), st.integers(1, 2)),
    st.tuples(st.just("follow"), st.integers(1, 3)),
    st.tuples(st.just("follow"), st.integers(1, 3)),
    st.tuples(st.just("wait"), st.integers(1, 20)),
    st.tuples(st.just("wait"), st.integers(1, 20)),
    st.tuples(st.just("reorg"), st.integers(1, 5)),
    st.tuples(st.just("restart"), st.just(0)),
    st.tuples(st.just("restart engine"), st.integers(1, 3)),
    st.tuples(st.just("hold"), st.integers(1, 3)),
    st.tuples(st.just("away"), st.integers(1, 3)),
)


FIRST_BLOCKS = 6
"""L1 blocks before a history."""


async def act(node: Node, kind: str, value: int) -> None:
    """Do one thing of a history."""
    chain = node.chains[value if value in node.chains else 1]
    match kind:
        case "grow":
            node.grow(value)
        case "reorg":
            # The first round stays: without one the next start begins with other logs.
            node.grow(max(1, value - 1), drop=min(value, len(node.world.l1) - FIRST_BLOCKS))
        case "follow":
            chain.follow()
        case "wait":
            await asyncio.sleep(value / 1000)
        case "restart":
            await node.stop()
            await node.start()
        case "restart engine":
            chain.restart()
        case "hold":
            chain.is_held = True
        case "away":
            chain.is_away = not chain.is_away


@pytest.mark.parametrize("config", [TWO, THREE, LATER], ids=["two", "three", "later"])
@given(seed=st.integers(0, 2**32), history=st.lists(ACTIONS, min_size=5, max_size=40))
@settings(max_examples=4, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_whatever_happens_all_rounds_are_true(config: InteropConfig, seed: int, history: list[tuple[str, int]]) -> None:
    """[VR1 to VR14, EM1 to EM11, CY1 to CY5, IV2 to IV8, RA1, RA2]: in the end, by the last L1 chain alone."""

    async def run() -> None:
        with TemporaryDirectory() as folder:
            async with node_of(ServedWorld(config, seed), Path(folder) / "interop", blocks=3) as node:
                node.grow(FIRST_BLOCKS - len(node.world.l1))
                await verify_all(node)
                for kind, value in history:
                    await act(node, kind, value)
                for chain in node.chains.values():
                    chain.is_away = False
                    chain.release()
                node.grow(max(2, 8 - len(node.world.l1)))
                assert await assert_true(node) >= 4

    asyncio.run(run())
