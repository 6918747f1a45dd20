"""The safe head database of the running process: calls in its thread, and errors of the file."""

import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.engine.calls.safe_head_entries import (
    FindSafeHeads,
    KeepSafeHeads,
    ResetSafeHeads,
    SafeHeadEntry,
    SafeHeadWrite,
)
from rollup_node.stages.engine.process.safe_heads import HistoryUnavailableError, SafeHeadDatabase, SafeHeadStore
from rollup_node.stages.io.files.sqlite_file import MEMORY, StoreError
from rollup_node.stages.io.log.logger import Level, Record
from rollup_node.stages.messages.control import L1AtSafeHeadRequest, SafeHeadRequest, SafeHeadResponse
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import BlockId
from tests.stages.engine.conftest import Run
from tests.support.chains.chain_fixture import ChainFixture, make_rollup
from tests.support.engine.core_harness import config_of
from tests.support.engine.fake_engine import FakeExecutionEngine
from tests.support.engine.safe_head_writer import entries_of
from tests.support.engine.safe_heads import SafeHeadModel, block, entry, l2_ref

NONE = block(0)


def database(chain: ChainFixture, path: Path) -> SafeHeadDatabase:
    config = config_of(chain, safedb_path=str(path))
    return SafeHeadDatabase(config)


async def test_calls_are_made_in_their_order(chain: ChainFixture, tmp_path: Path) -> None:
    """[SDB5, RPC35]"""
    safe_heads = database(chain, tmp_path / "safe")
    assert await safe_heads.at_l1(SafeHeadRequest(1, 5)) == SafeHeadResponse(1, "not found", NONE, NONE)
    calls = (safe_heads.write(entry(5, 9)), safe_heads.at_l1(SafeHeadRequest(2, 7)))
    written, result = await asyncio.gather(*calls)
    assert written and result == SafeHeadResponse(2, None, block(5), block(9))
    await safe_heads.close(5.0)
    with pytest.raises(RuntimeError, match="after shutdown"):  # it would open the file again
        await safe_heads.at_l1(SafeHeadRequest(3, 7))
    with contextlib.closing(SafeHeadStore(str(tmp_path / "safe"), chain.rollup)) as store:
        assert store.at_l1(5) == entry(5, 9)


async def test_its_end_waits_until_the_file_is_closed(
    chain: ChainFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    safe_heads, may_close, close = database(chain, tmp_path / "safe"), threading.Event(), SafeHeadStore.close
    await safe_heads.write(entry(5, 9))
    monkeypatch.setattr(SafeHeadStore, "close", lambda store: close(store) if may_close.wait(10) else None)
    asyncio.get_running_loop().call_soon(may_close.set)
    await safe_heads.close(5.0)
    close(SafeHeadStore(str(tmp_path / "safe"), chain.rollup))


async def test_the_l1_block_with_which_a_block_became_safe(chain: ChainFixture, tmp_path: Path) -> None:
    """[SDB6, RPC44]"""
    safe_heads = database(chain, tmp_path / "safe")
    assert (await safe_heads.l1_of(L1AtSafeHeadRequest(0, 9))).error == "l1 at safe head not found"
    for item in (entry(5, 9), entry(6, 12)):
        await safe_heads.write(item)
    result = await safe_heads.l1_of(L1AtSafeHeadRequest(1, 10))
    assert result == SafeHeadResponse(1, None, block(6), block(12))
    for number, error in ((13, "l1 at safe head not found"), (8, "l1 at safe head history unavailable")):
        assert (await safe_heads.l1_of(L1AtSafeHeadRequest(2, number))).error == error
    await safe_heads.close(5.0)


async def test_a_file_that_cannot_be_opened_is_tried_again(chain: ChainFixture, tmp_path: Path) -> None:
    """[SDB3]"""
    (tmp_path / "safe").mkdir()
    safe_heads = database(chain, tmp_path / "safe")
    with pytest.raises(TemporaryError, match=r"is a directory .*safedb\.path"):
        await safe_heads.write(entry(5, 9))
    response = await safe_heads.at_l1(SafeHeadRequest(1, 5))
    assert response.error is not None
    assert response.error.startswith("failed to get safe head at l1 block 0x5: safe head database ")
    (tmp_path / "safe").rmdir()
    assert await safe_heads.write(entry(5, 9)) is True
    await safe_heads.close(5.0)


async def test_a_gap_in_the_record_is_a_warning(chain: ChainFixture, tmp_path: Path, engine_log: list[Record]) -> None:
    """[SDB7]"""
    safe_heads = database(chain, tmp_path / "safe")
    await safe_heads.write(entry(5, 9))
    await safe_heads.write(ResetSafeHeads(l2_ref(9, origin=4), None))
    await safe_heads.write(entry(5, 9))
    assert engine_log == []
    await safe_heads.write(ResetSafeHeads(l2_ref(20, origin=9), None))
    assert [line.level for line in engine_log] == [Level.WARN]
    assert (await safe_heads.at_l1(SafeHeadRequest(1, 9))).error == "not found"
    await safe_heads.write(entry(5, 9))
    await safe_heads.write(ResetSafeHeads(l2_ref(20, origin=9), None, supervised=True))
    assert len(engine_log) == 2 and "has a gap" in engine_log[1].message
    assert (await safe_heads.at_l1(SafeHeadRequest(2, 9))).error == "safe head history unavailable"
    await safe_heads.close(5.0)


@pytest.mark.option("safedb.path")
async def test_a_node_records_what_it_derives(
    chain: ChainFixture, engine: FakeExecutionEngine, run: Run, tmp_path: Path
) -> None:
    """[SDB2, SDB8]: genesis at L1 block 0, then the last block of each L1 block."""
    async with run(safedb_path=str(tmp_path / "safe")) as node:
        start = await node.start()
        safe = [chain.genesis]
        for sequence, derived_from in enumerate((101, 101, 103), start=1):
            attributes = chain.attributes(safe[-1], 100, [chain.user])
            applied = await node.derive(start, sequence, safe[-1], attributes, derived_from)
            safe.append(applied.safe_head)
        wanted = {0: (0, 0), 100: (0, 0), 101: (101, 2), 102: (101, 2), 103: (103, 3), 2**64 - 1: (103, 3)}
        for request, (number, (l1, l2)) in enumerate(wanted.items()):
            result = await node.safe_head(SafeHeadRequest(request, number))
            assert result == SafeHeadResponse(request, None, chain.l1_ref(l1).id, safe[l2].id)


ROLLUP = make_rollup()
L1_GENESIS = block(0, 9)
ROOT = Path(__file__).parents[4]
FULL = 2
"""SQLite's number of `synchronous = full`."""
KILLS = int(os.environ.get("SAFEDB_KILLS", "50"))
"""Kills of a writer; more are worth running by hand."""


def store_at(path: Path | str, check: bool = False) -> SafeHeadStore:
    return SafeHeadStore(str(path), ROLLUP, check=check)


@pytest.fixture
def memory() -> Iterator[SafeHeadStore]:
    """Yield a database in memory."""
    with contextlib.closing(store_at(MEMORY)) as store:
        yield store


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SafeHeadStore]:
    """Yield a database in the file `safe`."""
    with contextlib.closing(store_at(tmp_path / "safe")) as store:
        yield store


@st.composite
def histories(draw: st.DrawFn) -> list[SafeHeadWrite]:
    """Write of a node: each safe head above the one before, and resets, mostly to earlier blocks, after which L1 may
    have another branch from any block on. No block is safe before its L1 origin."""
    result: list[SafeHeadWrite] = []
    model = SafeHeadModel()
    l1 = safe = branch = 0
    for _ in range(draw(st.integers(1, 25))):
        if draw(st.integers(0, 3)):
            l1, safe = l1 + draw(st.integers(0, 2)), safe + draw(st.integers(1, 3))
            result.append(entry(l1, safe, branch))
        elif model.entries and not draw(st.integers(0, 5)):
            last = draw(st.sampled_from([None, *model.entries]))
            result.append(KeepSafeHeads(last))
            l1, safe = (l1, safe) if last is None else (last.l1_block.number, last.safe_head.number)
        elif not draw(st.integers(0, 5)):
            l1, safe = l1 + draw(st.integers(0, 9)), safe + draw(st.integers(1, 9))
            result.append(ResetSafeHeads(l2_ref(safe, draw(st.integers(0, l1)), branch), None))
        else:
            branch, safe = draw(st.integers(0, 3)), draw(st.integers(0, safe))
            reached = model.l1_of(safe)
            origin = draw(st.integers(0, l1 if reached is None else reached.l1_block.number))
            l1 = draw(st.integers(origin, max(origin, l1)))
            result.append(ResetSafeHeads(l2_ref(safe, origin, branch), L1_GENESIS if safe == 0 else None))
        model.write(result[-1])
    return result


@given(histories())
@settings(max_examples=40, deadline=None)
def test_the_file_is_as_the_model_after_every_write(history: list[SafeHeadWrite]) -> None:
    """[SDB2, SDB5, SDB6, SDB7, SDB8, SDB11]"""
    store, model = store_at(MEMORY), SafeHeadModel()
    for write in history:
        store.write(write)
        model.write(write)
        assert entries_of(store) == model.entries
        for request in (FindSafeHeads(4), FindSafeHeads(4, below=4)):
            assert store.find(request) == model.find(request)
    for number in range(50):
        assert store.at_l1(number) == model.at_l1(number)
        wanted = model.l1_of(number)
        if wanted is not None and wanted.safe_head.number > number and wanted is model.entries[0]:
            with pytest.raises(HistoryUnavailableError, match="l1 at safe head history unavailable"):
                store.l1_of(number)
        else:
            assert store.l1_of(number) == wanted
    store.close()


def test_a_reset_to_the_first_safe_head_on_record_keeps_it(memory: SafeHeadStore) -> None:
    """[SDB6, SDB7]: what follows it became safe with the next entry, so no history is lost."""
    memory.write(entry(5, 9))
    memory.write(ResetSafeHeads(l2_ref(9, origin=4), None))
    memory.write(entry(6, 12))
    assert [memory.l1_of(number) for number in (9, 10)] == [entry(5, 9), entry(6, 12)]
    memory.write(ResetSafeHeads(l2_ref(9, origin=4, branch=1), None))
    assert entries_of(memory) == [], "of another block of that number nothing is known"


def test_with_a_supervisor_a_start_above_the_record_leaves_a_gap(memory: SafeHeadStore) -> None:
    """[SDB15]: another node kept the supervisor going; only what became safe meanwhile is unavailable."""
    store = memory
    for l1, l2 in ((100, 0), (103, 1), (104, 2)):
        store.write(entry(l1, l2))
    assert store.write(ResetSafeHeads(l2_ref(6, origin=101), None, supervised=True)) == entry(104, 2)
    for write in (None, entry(107, 6), entry(108, 7)):
        if write is not None:
            store.write(write)
        for number, l2 in ((102, 0), (103, 1)):
            result = store.at_l1(number)
            assert result is not None and result.safe_head.number == l2
        for number in (104, 105, 106):
            with pytest.raises(HistoryUnavailableError):
                store.at_l1(number)
        assert [store.l1_of(number) for number in (1, 2)] == [entry(103, 1), entry(104, 2)]
        for number in (3, 4, 5, 6):
            with pytest.raises(HistoryUnavailableError):
                store.l1_of(number)
    assert (store.at_l1(107), store.l1_of(7)) == (entry(107, 6), entry(108, 7))
    store.write(ResetSafeHeads(l2_ref(1, origin=100), None, supervised=True))
    store.write(entry(104, 3))
    assert (store.at_l1(106), store.l1_of(2)) == (entry(104, 3), entry(104, 3)), "the gap is derived again"


@given(st.data())
@settings(max_examples=35, deadline=None)
def test_with_a_supervisor_the_record_never_lies(data: st.DataObject) -> None:
    """[SDB14, SDB15]: blocks become safe while the node is there or away.

    Each return, and each reset by the supervisor, is a start at the true safe head. An answer about a past L1 block
    is the true one or an error."""
    store = store_at(MEMORY)
    truth: list[tuple[int, int]] = [(0, 0)]
    store.write(entry(0, 0))
    l1, present = 1, data.draw(st.booleans())
    if not present:
        store.write(KeepSafeHeads(None))
    for _ in range(data.draw(st.integers(1, 25))):
        kind = data.draw(st.sampled_from(["promote"] * 5 + ["repeat", "away", "reset"]))
        safe = truth[-1][1]
        if kind == "away":
            present = False
        elif kind == "reset":
            safe = data.draw(st.sampled_from([safe, safe, data.draw(st.integers(0, safe))]))
            truth = [item for item in truth if item[1] <= safe]
            l1 = data.draw(st.integers(max(1, truth[-1][0]), l1))
            origin = max(0, truth[-1][0] - data.draw(st.integers(0, 3)))
            store.write(ResetSafeHeads(l2_ref(safe, origin), L1_GENESIS if safe == 0 else None, supervised=True))
            present = True
        else:
            l1 += data.draw(st.integers(0, 2))
            if kind == "promote":
                truth.append((l1, safe + 1))
            if present:
                store.write(entry(l1, truth[-1][1]))
        for number in range(l1 if present else 0):
            with contextlib.suppress(HistoryUnavailableError):
                result = store.at_l1(number)
                wanted = max(l2 for source, l2 in truth if source <= number)
                assert result is None or result.safe_head.number == wanted, (truth, number)
        for number in range(truth[-1][1] + 1):
            with contextlib.suppress(HistoryUnavailableError):
                result = store.l1_of(number)
                wanted = next(source for source, l2 in truth if l2 >= number)
                assert result is None or result.l1_block.number == wanted, (truth, number)
    store.close()


def test_each_write_is_synced(file: SafeHeadStore) -> None:
    """[SDB3]: a write-ahead log of which each commit is synced, so that no entry is lost with the machine's memory."""
    for name, value in (("journal_mode", "wal"), ("synchronous", FULL)):
        assert file._connection.execute(f"pragma {name}").fetchone() == (value,)


@pytest.mark.fault("F57")
def test_a_failed_write_changes_nothing(file: SafeHeadStore) -> None:
    """[SDB3]"""
    for number in range(40):
        file.write(entry(number, number))
    before = entries_of(file)
    too_large = SafeHeadEntry(BlockId(7, bytes(32)), BlockId(7, None))  # type: ignore[arg-type]
    with pytest.raises(StoreError, match=r"safe head database .*safe: .* \(safedb\.path\)"):
        file.write(too_large)
    assert entries_of(file) == before
    file.write(entry(41, 41))
    assert entries_of(file) == [*before, entry(41, 41)]


# --- refused ---------------------------------------------------------------------------------------------------------


def test_two_nodes_cannot_share_a_file(file: SafeHeadStore, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"in use by another node: give each its own \(safedb\.path\)"):
        store_at(tmp_path / "safe")


def test_the_file_of_another_chain_is_refused(tmp_path: Path) -> None:
    """[SDB12]"""
    store_at(tmp_path / "safe").close()
    genesis = msgspec.structs.replace(ROLLUP.genesis, l2=BlockId(0, b"\x01" * 32))
    for rollup in (
        msgspec.structs.replace(ROLLUP, l2_chain_id=ROLLUP.l2_chain_id + 1),
        msgspec.structs.replace(ROLLUP, genesis=genesis),
    ):
        with pytest.raises(StoreError, match=rf"is of chain {ROLLUP.l2_chain_id} with .*give each chain its own"):
            SafeHeadStore(str(tmp_path / "safe"), rollup)
    store_at(tmp_path / "safe").close()


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "safe"
    store = store_at(path)
    for number in range(300):
        store.write(entry(number, number))
    store.close()
    raw = bytearray(path.read_bytes())
    raw[8192:16384] = random.Random(1).randbytes(8192)
    path.write_bytes(raw)
    with pytest.raises(StoreError, match=r"is damaged .*: remove it \(safedb\.path\); safe heads are recorded from"):
        store_at(path, check=True)


def test_the_directory_of_op_node_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"is a directory .*: give the path of a file \(safedb\.path\)"):
        store_at(tmp_path)


# --- kills -----------------------------------------------------------------------------------------------------------


@pytest.mark.fault("F57")
def test_a_kill_at_any_moment_loses_no_entry(tmp_path: Path) -> None:
    """After each kill of the process the file has all writes that were reported, and at most the one in hand."""
    seed = str(random.randrange(2**32))
    words = ("-m", "tests.support.engine.safe_head_writer", str(tmp_path / "safe"), str(KILLS), seed)
    ended = subprocess.run((sys.executable, *words), cwd=ROOT, capture_output=True, text=True, timeout=55)
    assert ended.returncode == 0, f"{seed}: {ended.stderr[-2000:]}"
    counts = json.loads(ended.stdout)
    assert counts["kills"] == KILLS and counts["reported"] > KILLS and counts["most_entries"] > 10
