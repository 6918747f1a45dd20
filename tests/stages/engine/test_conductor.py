"""The engine process under a conductor on loopback that lets it lead, and one that hangs [CND3 to CND7]."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.messages import control
from rollup_node.stages.messages.engine import AttributesOutcome
from tests.support.engine.engine_node import EngineNode, chain_clock
from tests.support.engine.fake_conductor import FakeConductor
from tests.support.engine.fake_engine import FakeExecutionEngine, sequencing_engine

TIMEOUT = 0.4


class ConductedNode(EngineNode):
    """A sequencing node with its conductor; the conductor checks that no block passes it."""

    def __init__(self, engine: FakeExecutionEngine, conductor: FakeConductor, directory: Path) -> None:
        self.conductor = conductor
        config: dict[str, Any] = {"sequencer_enabled": True, "sequencer_l1_confs": 0, "p2p": True}
        config |= {"conductor_enabled": True, "conductor_url": conductor.url, "conductor_timeout": TIMEOUT}
        super().__init__(engine.chain, engine, directory, clock=chain_clock(speed=5), **config)
        conductor.on_commit = lambda payload: self.check()

    @property
    def height(self) -> int:
        """How many blocks the engine has."""
        return len(self.engine.canonical())

    def check(self) -> None:
        """Every block that was gossiped or inserted was committed."""
        committed = {payload.block_hash for payload in self.conductor.committed}
        assert {item.block_hash for item in self.engine.canonical().values()} <= committed
        assert {item.payload.block_hash for item in self.published} <= committed

    async def begin(self) -> control.ControlResponse:
        """admin_startSequencer at the present head."""
        await self.until(lambda: self.unsafe >= 0 and self.stage.core.heads is not None)
        return await self.admin(control.StartSequencerRequest(1, self.engine.head))


@asynccontextmanager
async def conducted(directory: Path) -> AsyncIterator[ConductedNode]:
    """Yield a node of blocks every second whose clock is five times as fast; the sequencer is stopped."""
    engine = sequencing_engine()
    async with engine.serving(), FakeConductor().serving() as conductor:
        node = ConductedNode(engine, conductor, directory)
        async with node.running():
            yield node


@pytest.mark.option("conductor.rpc")
async def test_the_leader_sequences_what_the_conductor_has_stored(tmp_path: Path) -> None:
    async with conducted(tmp_path) as node:
        assert await node.begin() == control.ControlResponse(1, None, None)
        await node.until(lambda: node.height >= 3)
        stopped = await node.admin(control.StopSequencerRequest(2))
        assert stopped == control.ControlResponse(2, None, node.engine.head)
        node.check()
        assert [payload.block_number for payload in node.conductor.committed] == list(range(1, node.height + 1))
        await node.until(lambda: len({item.id for item in node.published}) == node.height)
        assert node.conductor.count("leader") <= 2, "it is not asked for before each block"
        assert b'rpc="conductor"' in node.meter.text()


@pytest.mark.option("conductor.rpc-timeout")
@pytest.mark.fault("F52")
async def test_a_conductor_that_hangs_delays_neither_derivation_nor_status_nor_admin_calls(tmp_path: Path) -> None:
    async with conducted(tmp_path) as node:
        start = await node.start()
        await node.begin()
        await node.until(lambda: node.height >= 1)
        node.conductor.hold.clear()
        requests = len(node.conductor.requests)
        await node.until(lambda: len(node.conductor.requests) > requests)
        assert (await node.output(control.OutputRequest(9, 1))).error is None
        parent, first = node.chain.genesis, node.chain.ref(node.engine.canonical()[1])
        attributes = node.chain.attributes(parent, first.l1_origin.number)
        applied = await node.derive(start, 1, parent, attributes, 101)
        assert applied.outcome is AttributesOutcome.ACCEPTED and applied.safe_head == first
        await node.until(lambda: node.has_problem("CONDUCTOR-UNREACHABLE: sequencer: failed to commit"))
        assert any(f"no answer within {TIMEOUT:g} s" in problem for problem in node.health)
        stopped = await node.admin(control.StopSequencerRequest(2))
        assert stopped == control.ControlResponse(2, None, node.engine.head), "while the conductor still hangs"
        node.check()
