"""The safe head database of the running process: calls in its thread, and errors of the file."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.process.safe_heads import SafeHeadDatabase
from rollup_node.stages.engine.safedb.entries import RecordSafeHead, ResetSafeHeads, SafeHeadsWritten
from rollup_node.stages.engine.safedb.io.store import SafeHeadStore
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level, Record
from rollup_node.stages.messages.control import L1AtSafeHeadRequest, SafeHeadRequest, SafeHeadResponse
from rollup_node.stages.protocol.errors import TemporaryError
from tests.stages.engine.conftest import Play, Run
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.engine.engine_node import EngineNode
from tests.support.engine.fake_engine import FakeExecutionEngine
from tests.support.engine.safe_heads import block, entry, l2_ref

NONE = block(0)


def database(chain: ChainFixture, path: Path) -> SafeHeadDatabase:
    settings: dict[str, Any] = {"engine_kind": "geth", "rollup": chain.rollup, "l1_chain": chain.l1_chain}
    return SafeHeadDatabase(EngineConfig("", b"", 1.0, safedb_path=str(path), **settings))


def test_calls_are_made_in_their_order(chain: ChainFixture, play: Play, tmp_path: Path) -> None:
    """[SDB5, RPC35]"""

    async def scene() -> None:
        safe_heads = database(chain, tmp_path / "safe")
        assert await safe_heads.at_l1(SafeHeadRequest(1, 5)) == SafeHeadResponse(1, "not found", NONE, NONE)
        calls = (safe_heads.write(RecordSafeHead(entry(5, 9))), safe_heads.at_l1(SafeHeadRequest(2, 7)))
        written, found = await asyncio.gather(*calls)
        assert written == SafeHeadsWritten() and found == SafeHeadResponse(2, None, block(5), block(9))
        await safe_heads.close(5.0)
        store = SafeHeadStore(str(tmp_path / "safe"), chain.rollup)
        assert store.at_l1(5) == entry(5, 9)
        store.close()

    play(scene())


def test_the_l1_block_with_which_a_block_became_safe(chain: ChainFixture, play: Play, tmp_path: Path) -> None:
    """[SDB6, RPC44]"""

    async def scene() -> None:
        safe_heads = database(chain, tmp_path / "safe")
        unfilled = await safe_heads.l1_of(L1AtSafeHeadRequest(0, 9))
        assert unfilled.error == "l1 at safe head not found"
        for each in (entry(5, 9), entry(6, 12)):
            await safe_heads.write(RecordSafeHead(each))
        found = await safe_heads.l1_of(L1AtSafeHeadRequest(1, 10))
        assert found == SafeHeadResponse(1, None, block(6), block(12))
        above = await safe_heads.l1_of(L1AtSafeHeadRequest(2, 13))
        assert above.error == "l1 at safe head not found"
        before = await safe_heads.l1_of(L1AtSafeHeadRequest(3, 8))
        assert before.error == "l1 at safe head history unavailable"
        await safe_heads.close(5.0)

    play(scene())


def test_a_file_that_cannot_be_opened_is_tried_again(chain: ChainFixture, play: Play, tmp_path: Path) -> None:
    """[SDB3]"""
    (tmp_path / "safe").mkdir()

    async def scene() -> None:
        safe_heads = database(chain, tmp_path / "safe")
        with pytest.raises(TemporaryError, match=r"is a directory .*safedb\.path"):
            await safe_heads.write(RecordSafeHead(entry(5, 9)))
        response = await safe_heads.at_l1(SafeHeadRequest(1, 5))
        assert response.error is not None
        assert response.error.startswith("failed to get safe head at l1 block 0x5: safe head database ")
        (tmp_path / "safe").rmdir()
        assert await safe_heads.write(RecordSafeHead(entry(5, 9))) == SafeHeadsWritten()
        await safe_heads.close(5.0)

    play(scene())


def test_a_gap_in_the_record_is_a_warning(chain: ChainFixture, play: Play, tmp_path: Path) -> None:
    """[SDB7]"""
    lines: list[Record] = []
    before = log.configuration()

    async def scene() -> None:
        safe_heads = database(chain, tmp_path / "safe")
        await safe_heads.write(RecordSafeHead(entry(5, 9)))
        await safe_heads.write(ResetSafeHeads(l2_ref(9, origin=4), None))
        await safe_heads.write(RecordSafeHead(entry(5, 9)))
        assert lines == []
        await safe_heads.write(ResetSafeHeads(l2_ref(20, origin=9), None))
        assert [line.level for line in lines] == [Level.WARN]
        assert (await safe_heads.at_l1(SafeHeadRequest(1, 9))).error == "not found"
        await safe_heads.write(RecordSafeHead(entry(5, 9)))
        await safe_heads.write(ResetSafeHeads(l2_ref(20, origin=9), None, supervised=True))
        assert len(lines) == 2 and "has a gap" in lines[1].message
        assert (await safe_heads.at_l1(SafeHeadRequest(2, 9))).error == "safe head history unavailable"
        await safe_heads.close(5.0)

    log.configure("engine", Level.INFO, lines.append)
    try:
        play(scene())
    finally:
        log.configure(*before)


@pytest.mark.option("safedb.path")
def test_a_node_records_what_it_derives(
    chain: ChainFixture, engine: FakeExecutionEngine, run: Run, tmp_path: Path
) -> None:
    """[SDB2, SDB8]: genesis at L1 block 0, then the last block of each L1 block."""

    async def scene(node: EngineNode) -> None:
        start = await node.start()
        safe = [chain.genesis]
        for sequence, derived_from in enumerate((101, 101, 103), start=1):
            attributes = chain.attributes(safe[-1], 100, [chain.user])
            applied = await node.derive(start, sequence, safe[-1], attributes, derived_from)
            safe.append(applied.safe_head)
        wanted = {0: (0, 0), 100: (0, 0), 101: (101, 2), 102: (101, 2), 103: (103, 3), 2**64 - 1: (103, 3)}
        for request, (number, (l1, l2)) in enumerate(wanted.items()):
            found = await node.safe_head(SafeHeadRequest(request, number))
            assert found == SafeHeadResponse(request, None, chain.l1_ref(l1).id, safe[l2].id)

    run(scene, safedb_path=str(tmp_path / "safe"))
