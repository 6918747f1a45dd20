"""EL sync over real sockets: the engine process with a fake execution engine that lacks the chain, and restarts of both
[ELS1 to ELS7]."""

from pathlib import Path

from rollup_node.stages.engine.calls.safe_head_entries import SafeHeadEntry
from rollup_node.stages.engine.process.safe_heads import SafeHeadStore
from rollup_node.stages.messages.control import SafeHeadRequest
from rollup_node.stages.protocol.types import BlockId
from tests.stages.engine.conftest import Run
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.engine.fake_engine import FakeExecutionEngine


async def test_derivation_resumes_at_the_last_recorded_safe_head(
    chain: ChainFixture, engine: FakeExecutionEngine, run: Run, tmp_path: Path
) -> None:
    """[SDB9] Its entry is there afterwards, and the one of a chain that the engine has not got is gone."""
    hashes = [ref.hash for ref in chain.build(12)]
    engine.head, engine.lost = hashes[0], set(hashes[1:])
    path = str(tmp_path / "safe")
    store = SafeHeadStore(path, chain.rollup)
    for l1, number, block in ((101, 2, hashes[2]), (102, 7, hashes[7]), (103, 9, b"\x99" * 32)):
        store.write(SafeHeadEntry(chain.l1_ref(l1).id, BlockId(number, block)))
    store.close()
    async with run(safedb_path=path, el_sync=True, offset_el_safe=8.0, p2p=True) as node:
        await node.until(lambda: node.has_problem("EL sync: waiting for an unsafe block"))
        await node.gossip(chain.payloads[hashes[9]])
        await node.until(lambda: node.has_problem("EL sync: block 0, 9 blocks to go"))
        assert node.status is not None and node.status.unsafe is None and "eth_syncing" in engine.calls
        engine.fetch()
        await node.gossip(chain.payloads[hashes[10]])
        assert (await node.start()).safe_head.number == 7
        await node.until(lambda: node.unsafe == 10 and not node.health)
        result = await node.safe_head(SafeHeadRequest(1, 200))
        assert (result.error, result.safe_head) == (None, BlockId(7, hashes[7]))
    store = SafeHeadStore(path, chain.rollup)
    entries = [store.at_l1(l1) for l1 in (101, 102, 103)]
    assert [None if item is None else item.safe_head.number for item in entries] == [2, 7, 7]
    store.close()
