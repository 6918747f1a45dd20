"""Reads on behalf of other processes: each ends in a response."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.process.engine_client import EngineClient
from rollup_node.stages.engine.process.reads import Reader
from rollup_node.stages.messages.control import OutputRequest
from rollup_node.stages.messages.engine import EngineStatus, L2BlocksRequest, L2BlocksResponse
from rollup_node.stages.messages.p2p import PayloadRequest, PayloadResponse
from rollup_node.stages.protocol.payloads import output_root
from tests.support.chains.chain_fixture import ALL_FORKS, ChainFixture, chain_with
from tests.support.engine.engine_node import follow
from tests.support.engine.fake_engine import SECRET, EngineFailure, FakeExecutionEngine

STATUS = EngineStatus(1, None, None, None, None, None, False, False)


def reader_of(engine: FakeExecutionEngine, status: EngineStatus = STATUS, **config: bool) -> Reader:
    settings = EngineConfig(engine.url, SECRET, 2.0, "geth", engine.chain.rollup, engine.chain.l1_chain)
    client = EngineClient(engine.url, SECRET, 2.0, engine.chain.rollup)
    return Reader(msgspec.structs.replace(settings, **config), client, lambda: status)


@pytest.fixture
async def reader(engine: FakeExecutionEngine) -> AsyncIterator[Reader]:
    """Yield the reader of a running engine."""
    async with engine.serving():
        result = reader_of(engine)
        yield result
        await result.close()


async def test_overlap_blocks(chain: ChainFixture, engine: FakeExecutionEngine) -> None:
    refs = follow(chain, engine, 3)
    async with engine.serving():
        reader = reader_of(engine)
        result = await reader.overlap_blocks(L2BlocksRequest(5, 1, 3))
        assert result.error is None and [block.ref for block in result.blocks] == refs[1:]
        assert result.blocks[0].transactions == chain.payloads[refs[1].hash].transactions
        missing = "the engine does not have all of the blocks 2 to 9"
        assert await reader.overlap_blocks(L2BlocksRequest(5, 2, 9)) == L2BlocksResponse(5, 2, 9, (), missing)
        engine.answers["eth_getBlockByNumber"] = [{"hash": "0x00"}, EngineFailure(-32000, "busy")]
        assert (await reader.overlap_blocks(L2BlocksRequest(5, 1, 1))).error is not None
        assert "does not have all" in str((await reader.overlap_blocks(L2BlocksRequest(5, 1, 1))).error)
    away = await reader.overlap_blocks(L2BlocksRequest(5, 1, 1))
    assert away.blocks == () and away.error is not None
    await reader.close()


async def test_payloads_for_peers(chain: ChainFixture, engine: FakeExecutionEngine, reader: Reader) -> None:
    refs = follow(chain, engine, 3)
    payload = chain.payloads[refs[2].hash]
    assert await reader.payload(PayloadRequest(1, 2)) == PayloadResponse(1, payload, None)
    assert await reader.payload(PayloadRequest(2, 9)) == PayloadResponse(2, None, None)
    engine.answers["eth_getBlockByNumber"] = [EngineFailure(-32000, "database is down")]
    result = await reader.payload(PayloadRequest(3, 1))
    assert result.payload is None and "database is down" in str(result.error)


async def test_outputs_from_the_header(chain: ChainFixture, engine: FakeExecutionEngine, reader: Reader) -> None:
    """From Isthmus on the header has the storage root [RPC32]."""
    refs = follow(chain, engine, 3)
    result = await reader.output(OutputRequest(1, 2))
    payload = chain.payloads[refs[2].hash]
    assert payload.withdrawals_root is not None
    assert (result.error, result.block, result.status) == (None, refs[2], STATUS)
    assert result.output_root == output_root(payload.state_root, payload.withdrawals_root, refs[2].hash)
    assert engine.calls == ["eth_getBlockByNumber"]


@pytest.mark.option("fetch-withdrawal-root-from-state")
@pytest.mark.parametrize("from_state", [True, False], ids=["by option", "before Isthmus"])
async def test_outputs_that_need_a_proof(from_state: bool) -> None:
    forks = ALL_FORKS if from_state else ALL_FORKS[:6]
    engine = FakeExecutionEngine(chain_with(dict.fromkeys(forks, 0)))
    refs = follow(engine.chain, engine, 3)
    engine.answers["eth_getProof"] = [EngineFailure(-32000, "pruned")]
    async with engine.serving():
        reader = reader_of(engine, withdrawal_root_from_state=from_state)
        result = await reader.output(OutputRequest(1, 2))
        assert result.error is not None and "pruned" in result.error and result.block is None
        assert result.error.startswith(f"failed to get L2 output at block 0x{refs[2].hash.hex()}:2: ")
        await reader.close()


async def test_outputs_of_safe_blocks_alone(chain: ChainFixture, engine: FakeExecutionEngine) -> None:
    """[RPC43]: superroot_atTimestamp has no output above the local safe head, and no error above the tip."""
    refs = follow(chain, engine, 3)
    status = EngineStatus(1, refs[3], refs[1], refs[2], refs[2], refs[0], False, False)
    nothing = (None, bytes(32), status)
    async with engine.serving():
        reader = reader_of(engine, status)
        safe = await reader.output(OutputRequest(1, 2, only_safe=True))
        assert (safe.error, safe.block, safe.status) == (None, refs[2], status)
        unsafe = await reader.output(OutputRequest(2, 3, only_safe=True))
        assert (unsafe.error, (unsafe.block, unsafe.output_root, unsafe.status)) == (None, nothing)
        above = await reader.output(OutputRequest(3, 4, only_safe=True))
        assert (above.block, above.output_root, above.status) == nothing
        engine.answers["eth_getBlockByNumber"] = [EngineFailure(-32000, "busy")]
        failed = await reader.output(OutputRequest(4, 2, only_safe=True))
        assert failed.status is None and str(failed.error).startswith("blockRefWithStatus@2: ")
        await reader.close()


async def test_errors_of_outputs_have_op_node_s_texts(
    chain: ChainFixture, engine: FakeExecutionEngine, reader: Reader
) -> None:
    """[RPC34]"""
    follow(chain, engine, 3)
    what = "failed to get L2 block ref with sync status: failed to determine L2BlockRef of height"
    assert (await reader.output(OutputRequest(1, 99))).error == f"{what} 99, could not get payload: not found"
    engine.answers["eth_getBlockByNumber"] = [EngineFailure(-32000, "busy")]
    busy = (await reader.output(OutputRequest(2, 1))).error
    assert busy is not None and busy.startswith(f"{what} 1, could not get payload: ") and "busy" in busy
