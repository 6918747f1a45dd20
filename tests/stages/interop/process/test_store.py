"""The interop database: what it answers, what it refuses, and that it has what was written [VDB1 to VDB3]."""

import contextlib
import json
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.interop.message_checks import LogPlace
from rollup_node.stages.interop.process import store as store_module
from rollup_node.stages.interop.process.store import InteropStore, InteropStoreError
from rollup_node.stages.interop.rounds import (
    AddLogs,
    Advance,
    Finished,
    InvalidateHeads,
    InvalidHead,
    Rewind,
    StoreState,
    VerifiedRound,
    advanced,
)
from rollup_node.stages.io.files.sqlite_file import MEMORY
from rollup_node.stages.protocol.interop_messages import BlockLogs
from rollup_node.stages.protocol.types import BlockId
from tests.support.interop.store_model import StoreModel
from tests.support.interop.store_writer import CONFIG, scripted_changes
from tests.support.interop.values import block, dependency_set, head_of, logs_of, member

ROOT = Path(__file__).parents[4]
FULL = 2
"""SQLite's number of `synchronous = full`."""
KILLS = int(os.environ.get("INTEROP_KILLS", "25"))
"""Kills of a writer; more are worth running by hand."""
L1 = BlockId(7, b"\x07" * 32)


def chain_of(chain_id: int, first: int, last: int, parent: bytes = bytes(32)) -> list[BlockLogs]:
    """Return blocks in a row, each with one log."""
    result: list[BlockLogs] = []
    for number in range(first, last + 1):
        ref = block(number, CONFIG.chains[chain_id].timestamp_of(number), result[-1].block.hash if result else parent)
        result.append(logs_of(ref, [b"log of %d" % number]))
    return result


ONE, TWO = chain_of(1, 0, 9), chain_of(2, 0, 9)
"""Blocks from genesis on, of the chain with blocks of one second and of that with blocks of two."""


def advance(timestamp: int, l1: BlockId = L1) -> Advance:
    """Return the round of a time."""
    number = timestamp - 1000
    blocks = {1: ONE[number]} | ({2: TWO[number // 2]} if number % 2 == 0 else {})
    return Advance(timestamp, l1, {chain: head_of(logs, l1) for chain, logs in blocks.items()})


@pytest.fixture
def store() -> Iterator[InteropStore]:
    """Yield a database in memory."""
    with contextlib.closing(InteropStore(MEMORY, CONFIG)) as store:
        yield store


@pytest.fixture
def file(tmp_path: Path) -> Iterator[InteropStore]:
    """Yield a database in the file `interop`, with four rounds."""
    with contextlib.closing(InteropStore(str(tmp_path / "interop"), CONFIG)) as store:
        for timestamp in range(1000, 1004):
            store.write(advance(timestamp))
        yield store


@given(st.integers(0, 2**32), st.integers(1, 60))
@settings(max_examples=40, deadline=None)
def test_the_file_is_as_the_model_after_every_change(seed: int, count: int) -> None:
    """[VR6, VR9, VR10, IV2, LB4, LB7, LB8, RA1, RA2]"""
    store, model = InteropStore(MEMORY, CONFIG), StoreModel(CONFIG)
    for changes in islice(scripted_changes(seed), count):
        assert store.write(*changes) == model.write(*changes)
    model.assert_same(store)
    store.close()


def test_a_round_must_follow_the_last_one(store: InteropStore) -> None:
    """[VR9, VR11]: nothing is written of a change that does not follow."""
    store.write(advance(1000))
    state = store.write(advance(1001))
    odd = logs_of(block(2, 1002, b"\x09" * 32), [])
    for change, text in (
        (advance(1003), r"the round 1003 does not follow"),
        (advance(1001), r"the round 1001 does not follow"),
        (Advance(1002, L1, {2: head_of(TWO[1]), 1: head_of(odd)}), "block 2:.* of chain 1 does not follow 1:"),
        (Advance(1002, L1, {1: head_of(ONE[2])}), "the round 1002 has no head of chain 2: 0:.* is its last block"),
        (Advance(1002, L1, {1: head_of(ONE[3])}), "block 3:.* of chain 1 does not follow 1:"),
    ):
        with pytest.raises(InteropStoreError, match=text):
            store.write(change)
        assert store.state() == state and store.stored([LogPlace(2, 1, 0)]) == {LogPlace(2, 1, 0): None}


def test_several_rounds_are_one_change(store: InteropStore) -> None:
    """[VR6]: all of them or none, and the state after them is known before they are written."""
    rounds = [advance(1000), advance(1001), advance(1002, BlockId(8, b"\x08" * 32))]
    state = StoreState({})
    for change in rounds:
        state = advanced(state, change)
    with pytest.raises(InteropStoreError, match="the round 1004 does not follow"):
        store.write(*rounds, advance(1004))
    assert store.state() == StoreState({}) and store.round_at(1000) is None
    assert store.write(*rounds) == state
    assert store.write(advance(1003, BlockId(8, b"\x08" * 32))) == advanced(state, advance(1003, rounds[-1].l1))


@pytest.mark.parametrize("change", [advance(1001), InvalidateHeads(1001, L1, ())])
def test_nothing_is_decided_while_a_transition_is_pending(
    change: Advance | InvalidateHeads, store: InteropStore
) -> None:
    """[VR6]: but what L1 has left is left."""
    store.write(advance(1000))
    store.write(Rewind(1001))
    with pytest.raises(InteropStoreError, match="while a transition is pending"):
        store.write(change)
    assert store.write(Rewind(1000)) == StoreState({}, pending=Rewind(1000))
    assert store.write(Finished()).pending is None


def test_logs_too_old_for_any_message_are_removed(store: InteropStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """[VR12]: of rounds of that time it is known which chains' heads were removed."""
    assert store_module.PRUNE_SECONDS == 2 * 604_800
    monkeypatch.setattr(store_module, "PRUNE_SECONDS", 3)
    for timestamp in range(1000, 1008):
        state = store.write(advance(timestamp))
    assert store.stored([LogPlace(1, 3, 0)])[LogPlace(1, 3, 0)] is None
    assert store.stored([LogPlace(1, 4, 0)])[LogPlace(1, 4, 0)] is not None
    result = store.round_at(1002)
    assert result is not None and (result.heads, result.removed, result.l1) == ({}, (1, 2), L1)
    kept = store.round_at(1007)
    assert kept is not None and (set(kept.heads), kept.removed) == ({1, 2}, ())
    assert state.verified == VerifiedRound(1007, L1, 1000)


def test_a_chain_may_join_the_set(tmp_path: Path) -> None:
    """[VDB2, VR10, LB4]"""
    path = str(tmp_path / "interop")
    before = InteropStore(path, dependency_set(CONFIG.chains[1], activation=1000))
    before.write(Advance(1000, L1, {1: head_of(ONE[0])}))
    before.close()
    with contextlib.closing(InteropStore(path, CONFIG)) as store:
        assert store.state().tips == {1: ONE[0].block.id}
        with pytest.raises(InteropStoreError, match="the round 1001 has no head of chain 2: None is its last block"):
            store.write(advance(1001))
        store.write(AddLogs(2, (TWO[0],), -1))
        assert store.finalize(L1.number).final == {1: ONE[0].block.id}, "no round has a head of the other"
    with contextlib.closing(InteropStore(path, CONFIG)) as store:
        assert store.write(advance(1001)).tips == {1: ONE[1].block.id, 2: TWO[0].block.id}
        rounds = [store.round_at(timestamp) for timestamp in (1000, 1001)]
        assert [set(round_.heads) for round_ in rounds if round_ is not None] == [{1}, {1, 2}]
        for chain_id in (1, 2):
            with pytest.raises(InteropStoreError, match=f"chain {chain_id} has rounds, and gets no older logs"):
                store.write(AddLogs(chain_id, (), -1))
        store.write(Rewind(1001))
        store.write(AddLogs(2, (), -1))


def test_each_change_is_synced(file: InteropStore) -> None:
    """[VDB1]"""
    for name, value in (("journal_mode", "wal"), ("synchronous", FULL)):
        assert file._connection.execute(f"pragma {name}").fetchone() == (value,)


# --- refused ---------------------------------------------------------------------------------------------------------


CHANGED = msgspec.structs.replace(CONFIG.chains[2].genesis, l2=BlockId(0, b"\x01" * 32))


@pytest.mark.parametrize(
    "others", [(), (member(3),), (member(4, number=9),), (msgspec.structs.replace(CONFIG.chains[2], genesis=CHANGED),)]
)
def test_the_file_of_other_chains_is_refused(others: tuple[object, ...], tmp_path: Path) -> None:
    """[VDB2]: a set never shrinks, and no genesis block changes."""
    path = str(tmp_path / "interop")
    InteropStore(path, CONFIG).close()
    others = (CONFIG.chains[1], *others)
    with pytest.raises(InteropStoreError, match=r"is of chain 2 with genesis 0x.*, which is not in the set"):
        InteropStore(path, dependency_set(*others))  # type: ignore[arg-type]
    InteropStore(path, CONFIG).close()


def test_a_file_of_before_outputs_were_stored_is_refused(tmp_path: Path) -> None:
    """[VDB2, LB7]"""
    path = str(tmp_path / "interop")
    InteropStore(path, CONFIG).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma user_version = 1")
    with pytest.raises(InteropStoreError, match=r"is of version 1, not 3: remove it \(data-dir\)"):
        InteropStore(path, CONFIG)


def test_chain_ids_have_a_bound() -> None:
    with pytest.raises(InteropStoreError, match="chain ids end at"):
        InteropStore(MEMORY, dependency_set(member(2**63)))


DAMAGE = {
    "a log is another one": "update blocks set logs = zeroblob(32) where chain = 1 and number = 2",
    "a hash is another one": "update blocks set hash = zeroblob(32) where chain = 1 and number = 2",
    "a hash is a text": "update blocks set hash = 'x' where chain = 1 and number = 2",
    "an output is another one": "update blocks set output = x'00' where chain = 1 and number = 2",
    "an output is a text": "update blocks set output = 'x' where chain = 1 and number = 2",
    "logs are a number": "update blocks set logs = 7 where chain = 1 and number = 2",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_block_that_is_not_what_was_written_is_refused(damage: str, file: InteropStore) -> None:
    """[VDB3]: also where SQLite finds nothing wrong."""
    place = LogPlace(1, 2, 0)
    assert file.stored([place])[place] == ONE[2].log_hash(0)
    file._connection.execute(damage)
    with pytest.raises(InteropStoreError, match=r"is damaged \(block 2 of chain 1 .*\): remove it \(data-dir\)"):
        file.stored([place])
    with pytest.raises(InteropStoreError, match="is damaged"):
        file.round_at(1002)


DAMAGED_FILES = {
    "a denied block is another one": "update denied set hash = zeroblob(32)",
    "its output is another one": "update denied set state_root = zeroblob(32)",
    "its chain is another one": "update denied set chain = 2",
    "the denied blocks are gone": "drop table denied",
    "L1's finalized block is another one": "update progress set l1_final = 99",
    "no transition was made": "update progress set transition = 0",
    "nothing is pending": "update progress set pending = null",
    "nothing was decided": "update progress set decided = null",
    "the progress is gone": "delete from progress",
    "the L1 block has another hash": "update inclusions set l1_hash = zeroblob(32)",
    "the L1 block has another number": "update inclusions set l1_number = 1",
    "a chain has had no rounds": "update chains set since = null where id = 1",
    "a chain has had rounds for longer": "update chains set since = 1 where id = 1",
    "a block is missing": "delete from blocks where chain = 1 and number = 2",
    "the last block is missing": "delete from blocks where chain = 1 and number = 3",
    "a round is missing": "update progress set verified = 1002",
    "the rounds are missing": "update progress set verified = null",
    "the L1 blocks are missing": "delete from inclusions",
    "an L1 block is none": "update inclusions set l1_hash = x'00'",
    "the transition is none": "update progress set pending = x'00'",
    "a decision's L1 block is none": "update progress set decided = x'c1'",
    "a tip is none": "update blocks set hash = 7 where chain = 1 and number = 3",
}


@pytest.mark.parametrize("damage", DAMAGED_FILES.values(), ids=DAMAGED_FILES)
def test_a_file_that_was_changed_is_refused(damage: str, file: InteropStore, tmp_path: Path) -> None:
    """[VDB2, VDB3, VR14]: by another row a denied block would be derived again, or all rounds be void.

    Each row has a checksum, and rows that are missing contradict the others."""
    file.write(InvalidateHeads(1004, L1, (InvalidHead(1, ONE[4].block.id, b"\x01" * 32, b"\x02" * 32, "why"),)))
    file._connection.execute(damage)
    file.close()
    with pytest.raises(InteropStoreError, match=r"is damaged .*: remove it \(data-dir\)|no such table: denied"):
        InteropStore(str(tmp_path / "interop"), CONFIG)


def test_a_round_that_is_not_final_is_not_taken_for_one(store: InteropStore) -> None:
    """[LB4]: where the L1 blocks of rounds are in another order than the rounds, as by a damaged index."""
    for timestamp, number in ((1000, 8), (1001, 12), (1002, 9)):
        store.write(advance(timestamp, BlockId(number, L1.hash)))
    with pytest.raises(InteropStoreError, match=r"is damaged \(its rounds are not in the order of"):
        store.final_heads(8)


def test_what_cannot_be_read_after_a_decision_undoes_it(file: InteropStore) -> None:
    """[VR6, VDB3]: a transition that is on disk alone would never be told."""
    assert file.finalize(L1.number).final[1] == ONE[3].block.id
    before = file.state()
    file._connection.execute("update blocks set logs = x'00' where chain = 1 and number = 2")
    with pytest.raises(InteropStoreError, match="block 2 of chain 1 is not what was written"):
        file.decide(Rewind(1003))
    assert file.state() == before and before.pending is None


def test_a_path_that_is_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InteropStoreError, match="interop database"):
        InteropStore(str(tmp_path), CONFIG)


# --- kills -----------------------------------------------------------------------------------------------------------


def test_a_kill_at_any_moment_loses_no_change(tmp_path: Path) -> None:
    """[VDB1, VR6]: after each kill the file has all changes that were reported, and at most the one in hand."""
    seed = str(random.randrange(2**32))
    words = ("-m", "tests.support.interop.store_writer", str(tmp_path / "interop"), str(KILLS), seed)
    limit = 55 if KILLS <= 100 else None
    ended = subprocess.run((sys.executable, *words), cwd=ROOT, capture_output=True, text=True, timeout=limit)
    assert ended.returncode == 0, f"{seed}: {ended.stderr[-2000:]}"
    counts = json.loads(ended.stdout)
    assert counts["kills"] == KILLS and counts["reported"] > KILLS
    assert min(counts[kind] for kind in ("Advance", "Advances", "InvalidateHeads", "Finished", "Rewind")) > 0
