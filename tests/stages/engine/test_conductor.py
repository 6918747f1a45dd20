"""The engine process under a conductor on loopback: a leader, slow, failing, hanging, away, or one that chooses another
leader while a block is built [CND3 to CND8]."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rollup_node.stages.messages import control
from rollup_node.stages.messages.engine import AttributesOutcome
from tests.support.engine.engine_node import EngineNode, chain_clock
from tests.support.engine.fake_conductor import NOT_LEADER, FakeConductor
from tests.support.engine.fake_engine import FakeExecutionEngine, sequencing_engine

TIMEOUT = 0.4


class ConductedNode(EngineNode):
    """A sequencing node with its conductor; the conductor checks that no block passes it."""

    def __init__(
        self, engine: FakeExecutionEngine, conductor: FakeConductor, directory: Path, life: int = 1, state: str = ""
    ) -> None:
        self.conductor = conductor
        conducted = {"conductor_enabled": True, "conductor_url": conductor.url, "conductor_timeout": TIMEOUT}
        config = {"sequencer_enabled": True, "sequencer_l1_confs": 0, "sequencer_state_file": state, "p2p": True}
        super().__init__(engine.chain, engine, directory, life, chain_clock(speed=5), **conducted, **config)
        conductor.on_commit = lambda payload: self.check()

    @property
    def is_active(self) -> bool:
        return self.status is not None and self.status.sequencer_active

    @property
    def height(self) -> int:
        """How many blocks the engine has."""
        return len(self.engine.canonical())

    def check(self) -> None:
        """Every block that was gossiped or inserted was committed."""
        committed = {payload.block_hash for payload in self.conductor.committed}
        assert {item.block_hash for item in self.engine.canonical().values()} <= committed
        assert {item.payload.block_hash for item in self.published} <= committed

    async def begin(self, number: int = 1) -> control.ControlResponse:
        """admin_startSequencer at the present head."""
        await self.until(lambda: self.unsafe >= 0 and self.stage.core.heads is not None)
        return await self.admin(control.StartSequencerRequest(number, self.engine.head))


@asynccontextmanager
async def conducted(directory: Path, *, is_leader: bool = True) -> AsyncIterator[ConductedNode]:
    """Yield a node of blocks every second whose clock is five times as fast; the sequencer is stopped."""
    engine = sequencing_engine()
    async with engine.serving(), FakeConductor(is_leader=is_leader).serving() as conductor:
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


@pytest.mark.fault("F52")
async def test_a_node_that_is_deposed_while_it_builds_puts_no_block_in_the_chain(tmp_path: Path) -> None:
    async with conducted(tmp_path) as node:
        await node.begin()
        await node.until(lambda: node.height >= 1)
        node.conductor.is_leader = False
        commits = node.conductor.count("commitUnsafePayload")
        await node.until(
            lambda: node.has_problem("CONDUCTOR-UNREACHABLE: sequencer: failed to commit unsafe payload to")
        )
        assert any(NOT_LEADER in problem for problem in node.health)
        height = node.height
        # Two attempts a try, and the second try comes a second later.
        await node.until(lambda: node.conductor.count("commitUnsafePayload") >= commits + 4)
        assert node.height == height == len(node.conductor.committed)
        assert (await node.admin(control.StopSequencerRequest(2))) == control.ControlResponse(2, None, node.engine.head)
        node.check()
        await node.until(lambda: not node.is_active and node.health == ())


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


async def test_the_next_life_of_the_process_is_stopped_and_asks_the_conductor_again(tmp_path: Path) -> None:
    """[CND6, CND8]"""
    engine = sequencing_engine()
    state = tmp_path / "sequencer.state"

    def life(conductor: FakeConductor, number: int) -> ConductedNode:
        folder = tmp_path / str(number)
        folder.mkdir()
        return ConductedNode(engine, conductor, folder, number, str(state))

    async with engine.serving(), FakeConductor(is_leader=False).serving() as conductor:
        async with life(conductor, 1).running() as node:
            assert isinstance(node, ConductedNode)
            await node.admin(control.OverrideLeaderRequest(1))
            assert (await node.begin(2)).error is None
            await node.until(lambda: node.height >= 1)
        assert not state.exists()
        async with life(conductor, 2).running() as node:
            assert isinstance(node, ConductedNode)
            assert (await node.begin(3)).error == "sequencer is not the leader, aborting"
            assert not node.is_active
