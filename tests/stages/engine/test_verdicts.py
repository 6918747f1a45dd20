"""The engine process in a supernode, over real sockets [IV5, IV10, RW1, RW3, RW4, LB6]."""

from pathlib import Path

from rollup_node.stages.engine.heads.verification import AWAITING_VERDICTS
from rollup_node.stages.messages.engine import AttributesOutcome
from rollup_node.stages.messages.interop import ChainVerdict, DeniedBlock, Verdicts
from rollup_node.stages.protocol.types import L2BlockRef
from tests.stages.engine.conftest import Run
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.engine.engine_node import EngineNode
from tests.support.engine.fake_engine import FakeExecutionEngine


def verdict(
    chain: ChainFixture, verified: L2BlockRef | None = None, denied: L2BlockRef | None = None, transition: int = 0
) -> Verdicts:
    """Return a state in which the block after the verified one is denied, if there is one."""
    blocks = () if denied is None else (DeniedBlock(denied.number, denied.hash),)
    back = None if denied is None or verified is None else verified.id
    head = None if verified is None else verified.id
    return Verdicts({chain.rollup.l2_chain_id: ChainVerdict(head, None, blocks, transition, back)}, 0, None, 0)


async def derive(node: EngineNode, blocks: int) -> list[L2BlockRef]:
    """Derive blocks with a transaction from the start on; the start's safe head comes first."""
    start = await node.start()
    refs = [start.safe_head]
    for sequence in range(1, blocks + 1):
        attributes = node.chain.attributes(refs[-1], 100, [node.chain.user])
        result = await node.derive(start, sequence, refs[-1], attributes, 101)
        refs.append(result.safe_head)
    return refs


async def test_verdicts_come_by_their_channel(
    chain: ChainFixture, engine: FakeExecutionEngine, run: Run, tmp_path: Path
) -> None:
    config = {"verified": True, "safedb_path": str(tmp_path / "safe.db")}
    async with run(**config) as node:
        await node.until(lambda: AWAITING_VERDICTS in node.health)
        assert engine.head == chain.genesis.hash and not node.starts
        node.verdicts.set(verdict(chain))
        refs = await derive(node, 3)
        node.verdicts.set(verdict(chain, refs[1]))
        await node.until(lambda: node.status is not None and node.status.safe == refs[1])
        await node.until(lambda: engine.safe == refs[1].hash)
        node.verdicts.set(verdict(chain, refs[1], refs[2], transition=1))
        await node.until(lambda: node.status is not None and node.status.transition == 1)
        assert node.status is not None and node.status.unsafe == node.status.local_safe == refs[1]
        start = await node.start(node.starts[-1].reset)
        assert start.safe_head == refs[1]
        attributes = chain.attributes(refs[1], 100, [chain.user])
        result = await node.derive(start, 1, refs[1], attributes, 101)
        assert result.outcome is AttributesOutcome.REPLACED_BY_DEPOSITS and result.safe_head.hash != refs[2].hash
        await node.until(lambda: engine.head == result.safe_head.hash)
    async with run(**config, incarnation=2) as node:
        node.verdicts.set(verdict(chain, refs[1], refs[2], transition=1))
        start = await node.start()
        assert start.safe_head == refs[1], "the verified block, with its L1 block from the safe head database"
        await node.until(lambda: node.status is not None and node.status.transition == 1)
        assert node.status is not None and node.status.unsafe == result.safe_head
