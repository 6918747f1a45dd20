"""The engine process over real sockets: a fake execution engine, a fake L1, and the buses of the node."""

import asyncio
from functools import partial

import pytest

from rollup_node.stages.engine.calls.actions import Action
from rollup_node.stages.engine.calls.engine_api import EngineAnswer, EngineCall
from rollup_node.stages.engine.process.stage import DAY_SECONDS, RETRY_SECONDS
from rollup_node.stages.messages import control
from rollup_node.stages.messages.engine import (
    AttributesOutcome,
    EngineStatus,
    ForkDoubt,
    ForkDoubts,
    L2BlocksRequest,
)
from rollup_node.stages.messages.p2p import GapEnd, PayloadRequest, PayloadResponse, UnsafeBlocksRequest
from rollup_node.stages.protocol.errors import TemporaryError
from tests.stages.engine.conftest import Run, RunOn
from tests.support.chains.chain_fixture import ChainFixture, chain_with
from tests.support.engine.engine_node import EngineNode, chain_clock, follow
from tests.support.engine.fake_engine import EngineFailure, FakeExecutionEngine, sequencing_engine


async def test_a_fresh_engine_derives_from_genesis(chain: ChainFixture, engine: FakeExecutionEngine, run: Run) -> None:
    async with run(incarnation=5) as node:
        start = await node.start()
        assert start.safe_head == chain.genesis and start.base == chain.rollup.genesis.l1
        assert start.safe_config == start.base_config == chain.rollup.genesis.system_config
        assert start.reset == 5 << 32 | 1, "a new life has higher numbers"
        parent = chain.genesis
        for sequence in (1, 2, 3):
            attributes = chain.attributes(parent, 100, [chain.user])
            applied = await node.derive(start, sequence, parent, attributes, 101)
            assert applied.outcome is AttributesOutcome.ACCEPTED and applied.safe_head.number == sequence
            assert applied.safe_config == chain.known[applied.safe_head.hash].config
            parent = applied.safe_head
        await node.until(lambda: engine.safe == parent.hash)
        await node.until(lambda: node.status is not None and node.status.safe == parent)
        assert node.status == EngineStatus(
            start.reset, parent, parent, parent, parent, chain.genesis, False, False, start=chain.genesis
        )
        assert node.health == ()
        assert b'refs_number{layer="l2",type="l2_safe"} 3.0' in node.meter.text()
        node.move_l1(105, 101)
        await node.until(lambda: engine.finalized == parent.hash)
        await node.until(lambda: node.status is not None and node.status.finalized == parent)


async def test_an_idle_engine_that_goes_away_is_noticed(
    chain: ChainFixture, engine: FakeExecutionEngine, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rollup_node.stages.engine.process.stage.WATCH_SECONDS", 0.2)
    follow(chain, engine, 3)
    async with run() as node:
        await node.start()
        engine.answers["eth_chainId"] = ["0x1", EngineFailure(-32603, "out of order")]
        host = engine.url.removeprefix("http://").removesuffix("/")
        for text in ("it is on chain 1, not on", "error -32603"):
            problem = f"watch: execution engine {host}: {text}"
            await node.until(partial(node.has_problem, problem))


async def test_an_engine_that_stays_away_is_watched_with_pauses(
    chain: ChainFixture, engine: FakeExecutionEngine, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its calls are known to fail, none is made that would end its silence."""
    monkeypatch.setattr("rollup_node.stages.engine.process.stage.WATCH_SECONDS", 0.1)
    follow(chain, engine, 3)
    async with run() as node:
        await node.start()
        monkeypatch.setattr(type(node.stage._status), "engine_fails", property(lambda _: True))
        watch = next(task for task in node.stage.periodic_tasks if task.name == "watch")
        for _ in range(3):
            pause = await watch.step()
            assert pause > 0.0
            await asyncio.sleep(pause)


async def test_forks_are_asked_for_daily_and_of_an_engine_that_is_away_soon(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubt, published, is_away = ForkDoubt("lagoon", 100, "it is old"), list[object](), [True]

    async def fork_doubts(network: str, now: float) -> list[ForkDoubt]:
        if is_away[0]:
            raise TemporaryError("the engine is away")
        return [doubt]

    async with run() as node:
        monkeypatch.setattr(node.stage._reading_client, "fork_doubts", fork_doubts)
        monkeypatch.setattr(node.stage._status, "set", published.append)
        watch = next(task for task in node.stage.periodic_tasks if task.name == "forks of the engine")
        assert await watch.step() == RETRY_SECONDS
        is_away[0] = False
        assert await watch.step() == DAY_SECONDS
        assert [item for item in published if isinstance(item, ForkDoubts)] == [ForkDoubts((doubt,))]


# --- control and sequencing ----------------------------------------------------------------------------------------


async def test_reads_of_other_processes(chain: ChainFixture, engine: FakeExecutionEngine, run: Run) -> None:
    """Their contents and errors are in the tests of the reads."""
    refs = follow(chain, engine, 3)
    async with run(p2p=True) as node:
        start = await node.start()
        result = await node.output(control.OutputRequest(1, 2))
        payload = chain.payloads[refs[2].hash]
        assert (result.error, result.block) == (None, refs[2])
        assert result.withdrawal_storage_root == payload.withdrawals_root and result.state_root == payload.state_root
        assert result.status is not None and result.status.unsafe == refs[3]
        assert str((await node.output(control.OutputRequest(2, 99))).error).endswith("not found")
        overlap = L2BlocksRequest(start.reset, 1, 3)
        await node.until(lambda: bool(node.overlap_blocks), lambda: node.blocks.send(overlap))
        assert [block.ref for block in node.overlap_blocks[0].blocks] == refs[1:]
        assert node.payloads is not None and node.payloads.send(PayloadRequest(7, 2))
        await node.until(lambda: node.peer_payloads == [PayloadResponse(7, payload, None)])


async def test_a_sealed_block_is_inserted_before_the_process_ends(run_on: RunOn) -> None:
    """[SEQ28] It is published already. No other block is sequenced."""
    engine, clock = sequencing_engine(), chain_clock()
    published: list[bytes] = []
    async with run_on(engine)(clock=clock, sequencer_enabled=True, sequencer_l1_confs=0, p2p=True) as node:
        await node.until(lambda: bool(node.published))
        engine.delay = 0.2
        await node.until(lambda: node.published[-1].payload.block_number == 2)
        published.append(node.published[-1].payload.block_hash)
        assert engine.head == node.published[0].payload.block_hash
    assert engine.head == published[0] and len(engine.canonical()) == 2


def recorded(node: EngineNode, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list that the engine's calls and the actions of the core get into, in their order."""
    events: list[str] = []
    ask, perform = node.stage._client.ask, node.stage._actions.perform

    async def asked(call: EngineCall) -> EngineAnswer:
        events.append(type(call).__name__)
        return await ask(call)

    def performed(actions: list[Action]) -> None:
        events.extend(type(action).__name__ for action in actions)
        perform(actions)

    monkeypatch.setattr(node.stage._client, "ask", asked)
    monkeypatch.setattr(node.stage._actions, "perform", performed)
    return events


async def test_a_call_leaves_before_what_else_follows_from_an_answer(
    chain: ChainFixture, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[ENG44]"""
    async with run() as node:
        start = await node.start()
        events = recorded(node, monkeypatch)
        await node.derive(start, 1, chain.genesis, chain.attributes(chain.genesis, 100), 101)
    calls = [name for name in events if name in ("GetPayload", "NewPayload", "ForkchoiceUpdate")]
    assert calls[:4] == ["ForkchoiceUpdate", "GetPayload", "NewPayload", "ForkchoiceUpdate"]
    first = events.index("GetPayload")
    assert events[first : first + 3] == ["GetPayload", "PublishStatus", "NewPayload"]
    assert events.index("AttributesProcessed") > first


async def test_a_sealed_block_is_published_before_it_is_inserted(
    run_on: RunOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[ENG44, SEQ3]"""
    async with run_on(sequencing_engine())(
        clock=chain_clock(), sequencer_enabled=True, sequencer_l1_confs=0, p2p=True
    ) as node:
        events = recorded(node, monkeypatch)
        await node.until(lambda: events.count("NewPayload") >= 3)
    order = [name for name in events if name in ("PublishBlock", "NewPayload")]
    assert order[:6] == ["PublishBlock", "NewPayload"] * 3


@pytest.mark.fault("F48")
async def test_a_gap_is_requested_from_peers_and_filled(run_on: RunOn) -> None:
    """[UNS5] As op-node's `syncmode.req-resp` once did."""
    engine = sequencing_engine(l1_step=6)
    refs = engine.chain.build(6)
    blocks = [engine.chain.payloads[ref.hash] for ref in refs[1:]]
    async with run_on(engine)(p2p=True, gaps_from_engine=False, clock=chain_clock()) as node:
        await node.until(lambda: node.unsafe == 0)
        await node.gossip(blocks[5], blocks[4])
        gap = UnsafeBlocksRequest(0, GapEnd(5, refs[5].hash, refs[4].hash))
        await node.until(lambda: node.requested.count(gap) >= 2)
        assert {item for item in node.requested if item.gap_end is not None} == {gap}
        await node.gossip(*reversed(blocks[:4]))
        await node.until(lambda: node.unsafe == 6)


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
