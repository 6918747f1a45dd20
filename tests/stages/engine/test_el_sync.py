"""EL sync over real sockets: the engine process with a fake execution engine that lacks the chain, and restarts of both
[ELS1 to ELS7]."""

from pathlib import Path
from typing import Any

from rollup_node.stages.engine.calls.safe_head_entries import RecordSafeHead, SafeHeadEntry
from rollup_node.stages.engine.process.safe_heads import SafeHeadStore
from rollup_node.stages.messages.control import SafeHeadRequest
from rollup_node.stages.protocol.types import BlockId
from tests.stages.engine.conftest import Play, Run
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.engine.engine_node import EngineNode
from tests.support.engine.fake_engine import FakeExecutionEngine

EL_SYNC: dict[str, Any] = {"el_sync": True, "offset_el_safe": 8.0, "p2p": True}


def empty(chain: ChainFixture, engine: FakeExecutionEngine) -> list[bytes]:
    """Return the engine has only genesis of a chain of twelve blocks; their hashes."""
    hashes = [ref.hash for ref in chain.build(12)]
    engine.head, engine.lost = hashes[0], set(hashes[1:])
    return hashes


async def test_from_gossip_to_derivation(chain: ChainFixture, engine: FakeExecutionEngine, run: Run) -> None:
    hashes = empty(chain, engine)
    async with run(**EL_SYNC) as node:
        await node.until(lambda: node.has_problem("EL sync: waiting for an unsafe block"))
        await node.gossip(chain.payloads[hashes[9]])
        await node.until(lambda: node.has_problem("EL sync: block 0, 9 blocks to go"))
        assert node.status is not None and node.status.unsafe is None and "eth_syncing" in engine.calls
        engine.fetch()
        await node.gossip(chain.payloads[hashes[10]])
        start = await node.start()
        assert start.safe_head.number == 6
        await node.until(lambda: node.unsafe == 10 and not node.health)
        assert (engine.safe, engine.finalized) == (hashes[6], hashes[6])


def test_derivation_resumes_at_the_last_recorded_safe_head(
    chain: ChainFixture, engine: FakeExecutionEngine, play: Play, tmp_path: Path
) -> None:
    """[SDB9] Its entry is there afterwards, and the one of a chain that the engine has not got is gone."""
    hashes = empty(chain, engine)
    path = str(tmp_path / "safe")
    store = SafeHeadStore(path, chain.rollup)
    for l1, number, block in ((101, 2, hashes[2]), (102, 7, hashes[7]), (103, 9, b"\x99" * 32)):
        store.write(RecordSafeHead(SafeHeadEntry(BlockId(l1, bytes([l1]) * 32), BlockId(number, block))))
    store.close()

    async def scene() -> None:
        async with engine.serving(), EngineNode(chain, engine, tmp_path, safedb_path=path, **EL_SYNC).running() as node:
            await node.until(lambda: node.has_problem("EL sync: waiting"))
            engine.fetch()
            await node.gossip(chain.payloads[hashes[10]])
            start = await node.start()
            assert start.safe_head.number == 7
            result = await node.safe_head(SafeHeadRequest(1, 200))
            assert (result.error, result.safe_head) == (None, BlockId(7, hashes[7]))

    play(scene())
    store = SafeHeadStore(path, chain.rollup)
    result = [store.at_l1(l1) for l1 in (101, 102, 103)]
    assert [None if item is None else item.safe_head.number for item in result] == [2, 7, 7]
    store.close()
