"""The interop process over chains and an L1 that are served in one process [VR1 to VR15, IV2 to IV8, RA1, RA2].

The cases are those of op-supernode's acceptance tests, and of its open bugs."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from rollup_node.stages.interop import holding
from rollup_node.stages.interop.process import stage
from rollup_node.stages.interop.process.store import InteropStore
from rollup_node.stages.interop.rounds import Change, StoreState
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.interop import DeniedBlock
from rollup_node.stages.protocol.types import BlockId
from tests.support.interop.running_stage import Node, assert_true, derivable, node_of, verify_all
from tests.support.interop.served_world import ServedWorld
from tests.support.interop.values import GENESIS_TIME, Claim, dependency_set, member
from tests.support.interop.world import L1_STEP, Logs
from tests.support.timing.manual_clock import ManualClock

PAIR = dependency_set(member(1), member(2), activation=GENESIS_TIME, window=100)
"""Two chains with a block each second, for scripted messages."""

Script = Mapping[tuple[int, int], Logs]


def claim(chain_id: int, number: int, payload: bytes = b"said", index: int = 0) -> Claim:
    """Return a message of PAIR that executes a log of a block."""
    return Claim(chain_id, number, index, GENESIS_TIME + number, payload)


def as_time_passes(clock: ManualClock, condition: Callable[[], bool]) -> Callable[[], bool]:
    """Return the condition; each time that it is asked for a second has passed."""

    def passed() -> bool:
        clock.now += 1
        return condition()

    return passed


def waits_again(node: Node) -> Callable[[], bool]:
    """Return whether the rounds have begun to wait since now."""

    def waits() -> float:
        return node.meter_value("supernode_interop_round_decisions_total", decision="wait")

    before = waits()
    return lambda: waits() > before


@contextlib.asynccontextmanager
async def pair(tmp_path: Path, script: Script, *, held: int | None = None) -> AsyncIterator[Node]:
    """Run two chains with these logs from the first second on, of which one may carry out nothing."""
    async with node_of(ServedWorld(PAIR, 1, script), tmp_path / "interop", blocks=2) as node:
        if held is not None:
            node.chains[held].is_held = True
        node.grow(4)
        node.follow()
        yield node


# --- head progression ------------------------------------------------------------------------------------------------


async def test_rounds_for_which_all_is_read_are_written_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[VR6, EM9, EM10]: a message names a log of a round that is not written yet; what denies a block is written alone.

    They are written together up to a bound."""
    monkeypatch.setattr(stage, "MAX_ROUNDS", L1_STEP - 1)
    written: list[list[str]] = []
    write = InteropStore.write

    def recorded(store: InteropStore, *changes: Change) -> StoreState:
        written.append([type(change).__name__ for change in changes])
        return write(store, *changes)

    monkeypatch.setattr(InteropStore, "write", recorded)
    script: Script = {(2, 10): (b"said",), (1, 11): (claim(2, 10),), (1, 17): (OTHER,)}
    async with pair(tmp_path, script) as node:
        node.grow(4)
        await verify_all(node)
        assert [block.number for block in node.verdict(1).denied] == [17]
        assert max(map(len, written)) == L1_STEP - 1, "of the rounds of one L1 block"
        assert all(len(set(changes)) == 1 for changes in written)
        assert not any("InvalidateHeads" in changes for changes in written), "it is one change by itself"
        rounds = node.meter_value("supernode_interop_round_decisions_total", decision="advance")
        assert rounds == sum(changes.count("Advance") for changes in written)


async def test_a_chain_that_lags_holds_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[VR3, VR15]: none is ahead of it, and it is named once the lead is large, or it gives no answer."""
    monkeypatch.setattr(holding, "MAX_LEAD", 10 * L1_STEP)
    async with node_of(ServedWorld(PAIR, 1, {}), tmp_path / "interop") as node:
        await verify_all(node)
        node.chains[2].lead_to(len(node.chains[2].blocks()) - 1)
        node.grow(5)
        node.follow()
        await node.until(waits_again(node))
        assert not node.problems
        node.grow(15)
        node.follow(1)
        await node.until(lambda: node.code() is Code.INTEROP_WAITS)
        assert node.problems[0].subject == "chain 2" and "behind theirs" in node.problems[0].text
        node.chains[2].lead_to(10**6)
        await verify_all(node)
        assert not node.problems


@pytest.mark.sign("INTEROP-WAITS", line=True, readyz=True)
async def test_an_engine_that_is_away_holds_the_others_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """[VR3, VR15]"""
    async with node_of(ServedWorld(PAIR, 1, {}), tmp_path / "interop") as node:
        last = await verify_all(node)
        node.clock = clock = ManualClock(0.0)
        node.chains[2].is_away = True
        node.grow(4)
        node.follow()
        await node.until(waits_again(node))
        assert not node.problems and node.verdicts.timestamp < last + 4 * L1_STEP
        await node.until(as_time_passes(clock, lambda: node.code() is Code.INTEROP_WAITS))
        assert node.problems[0].subject == "chain 2" and "does not have all of the blocks" in node.problems[0].text
        line = capsys.readouterr().err.splitlines()[-1]
        assert f"code={Code.INTEROP_WAITS.text}" in line and f"do={Code.INTEROP_WAITS.remedy}" in line
        node.chains[2].is_away = False
        await verify_all(node)
        assert not node.problems


# --- invalid blocks --------------------------------------------------------------------------------------------------

OTHER = claim(2, 6, b"other")
DECISIONS = ("advance", "invalidate", "rewind", "wait")


async def test_an_invalid_message_has_its_block_replaced(tmp_path: Path) -> None:
    """[IV2 to IV4, VR6, LB3]: the chain is told until it has gone back, the other is not."""
    async with pair(tmp_path, {(1, 7): (OTHER,)}, held=1) as node:
        await node.until(lambda: node.verdict(1).go_back is not None)
        told, block = node.verdict(1), node.chains[1].blocks()[7].ref
        assert told.denied == (DeniedBlock(7, block.hash),)
        assert told.go_back == BlockId(6, block.parent_hash) and told.transition > 0
        assert node.verdict(2).go_back is None and node.verdict(2).denied == ()
        assert node.verdicts.timestamp == GENESIS_TIME + 6, "no round before it has"
        assert node.chains[1].reads.count("0x7") > 1, "it is read again before it is denied"
        node.chains[1].release()
        await verify_all(node)
        assert node.verdict(1).go_back is None and node.verdict(1).denied == told.denied, "not its replacement [IV9]"
        assert node.verdict(1).transition == told.transition
        assert await assert_true(node) > 8


async def test_metrics_have_op_supernodes_names(tmp_path: Path) -> None:
    """[LB12]"""
    prefix = "supernode_interop"
    async with pair(tmp_path, {(1, 7): (OTHER,)}) as node:
        last = await verify_all(node)
        assert node.meter_value(f"{prefix}_verified_timestamp") == last
        verified = node.meter_value(f"{prefix}_timestamps_verified_total")
        assert verified == last - node.first + 1
        assert [node.meter_value(f"{prefix}_invalidations_total", chain_id=chain) for chain in "12"] == [1, 0]
        assert node.meter_value(f"{prefix}_activity_state") == 2
        node.grow(3, drop=2)
        await node.until(lambda: node.meter_value(f"{prefix}_rewinds_total") > 0)
        decided = {name: node.meter_value(f"{prefix}_round_decisions_total", decision=name) for name in DECISIONS}
        assert decided["advance"] >= verified and decided["invalidate"] == 1 and decided["rewind"] > 0
        assert decided["wait"] > 0, "for blocks of the next second"


@pytest.mark.parametrize("moment", ["pending", "carried out", "engine process"])
async def test_a_restart_with_a_pending_transition_delivers_it_again(tmp_path: Path, moment: str) -> None:
    """[VR6]: whichever process is restarted, and whatever the chain has done by then."""
    async with pair(tmp_path, {(1, 7): (OTHER,)}, held=1) as node:
        await node.until(lambda: node.verdict(1).go_back is not None)
        told = node.verdict(1)
        if moment == "engine process":
            node.chains[1].restart()
        else:
            await node.stop()
            if moment == "carried out":
                node.chains[1].release()
            for chain in node.chains.values():
                chain.verdicts.clear()
            await node.start()
            await node.until(lambda: node.told)
        if moment != "carried out":
            assert node.verdict(1) == told
            node.chains[1].release()
        await assert_true(node)
        assert node.verdict(1).transition == told.transition, "no second one"


async def test_a_chain_that_does_not_go_back_is_named(tmp_path: Path) -> None:
    """[IV4, VR15]"""
    async with pair(tmp_path, {(1, 7): (OTHER,)}, held=1) as node:
        node.clock = clock = ManualClock(0.0)
        await node.until(lambda: node.verdict(1).go_back is not None)
        await node.until(as_time_passes(clock, lambda: node.code() is Code.INTEROP_WAITS))
        assert node.problems[0].subject == "chain 1" and "gone back" in node.problems[0].text


# --- L1 --------------------------------------------------------------------------------------------------------------


async def test_a_rewind_tells_each_chain_where_to_go_back(tmp_path: Path) -> None:
    """[RA1]"""
    async with node_of(ServedWorld(PAIR, 3, {}), tmp_path / "interop") as node:
        await verify_all(node)
        verified = dict.fromkeys(node.chains)
        for chain_id, chain in node.chains.items():
            verified[chain_id], chain.is_held = chain.blocks()[-1 - L1_STEP], True
        node.grow(3)
        last = await verify_all(node)
        node.grow(3, drop=3)
        await node.until(lambda: node.verdict(1).go_back is not None)
        assert node.verdicts.timestamp < last - 2 * L1_STEP
        for chain_id in node.chains:
            assert node.verdict(chain_id).go_back == node.verdict(chain_id).verified
            node.chains[chain_id].release()
        await assert_true(node)
        told = [verdicts.chains[1] for verdicts in node.chains[1].verdicts]
        assert len({verdict.transition for verdict in told if verdict.go_back is not None}) == 1


@pytest.mark.condition("C16")
async def test_nothing_goes_back_below_l1_finality(tmp_path: Path) -> None:
    """[VR13, LB4], optimism#22127: also over a restart, before L1 says what is final."""
    async with node_of(ServedWorld(PAIR, 3, {}), tmp_path / "interop") as node:
        node.grow(3)
        last = await verify_all(node)
        node.finalize(len(node.world.l1) - 1)
        await node.until(lambda: node.verdict(1).final is not None)
        final = node.verdict(1).final
        await node.stop()
        node.world.finalized = 0
        for chain in node.chains.values():
            chain.verdicts.clear()
        await node.start()
        await node.until(lambda: node.told)
        assert node.verdict(1).final == final
        await node.until_prepared()
        node.grow(6, drop=5)
        await node.until(lambda: node.code() is Code.INTEROP_L1_FINAL)
        assert node.verdicts.timestamp == last and node.verdict(1).go_back is None
        assert node.meter_value("supernode_interop_activity_state") == 3


async def test_rounds_ask_l1_for_next_to_nothing(tmp_path: Path) -> None:
    """[VR4]: a block that was the head while the chain grew is not asked for."""
    async with node_of(ServedWorld(PAIR, 3, {}), tmp_path / "interop") as node:
        node.grow(2)
        await node.until_head()
        await verify_all(node)
        node.l1.asked.clear()
        for _ in range(10):
            node.grow()
            await node.until_head()
            await verify_all(node)
        assert len(node.l1.asked) <= 1


# --- the start -------------------------------------------------------------------------------------------------------


async def test_a_chain_that_begins_after_the_start_holds_no_other(tmp_path: Path) -> None:
    """[VR2, VR10]: the other's blocks are verified from its start on, also those of before the later genesis."""
    later = dependency_set(member(1), member(2, genesis_time=GENESIS_TIME + 12), activation=GENESIS_TIME, window=100)
    async with node_of(ServedWorld(later, 1, {}), tmp_path / "interop", blocks=3) as node:
        assert node.first < later.first_round
        node.grow(6)
        assert await assert_true(node) > 12


async def test_a_chain_that_joins_is_read_once_its_blocks_are_safe(tmp_path: Path) -> None:
    """[VR10]: what its engine has above its safe head, as after it has synced by itself, counts for nothing."""
    store, begun = tmp_path / "interop", (member(1), member(3))
    async with node_of(ServedWorld(dependency_set(*begun), 1, {}), store) as node:
        last, l1 = await verify_all(node), node.world.l1
    world = ServedWorld(dependency_set(*begun, member(2)), 1, {})
    world.l1 = l1
    async with node_of(world, store, blocks=0, leads={2: 3}, is_prepared=False) as node:
        await node.until(lambda: node.told and node.stage._chains[2].local_safe is not None)
        await asyncio.sleep(2 * stage.NOT_READY_SECONDS)
        assert node.chains[2].reads == [] and node.verdicts.timestamp == last
        node.chains[2].lead_to(10**6)
        node.first = last + 1
        node.grow(4)
        assert await assert_true(node) > 8


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_chain_that_has_joined_may_change_before_it_is_in_a_round(tmp_path: Path, restarts: bool) -> None:
    """[VR10, VR14]: L1 has left what its blocks are derived from, and none of the last round's."""
    store, begun = tmp_path / "interop", (member(1), member(3))
    async with node_of(ServedWorld(dependency_set(*begun), 1, {}), store) as node:
        last, l1 = await verify_all(node), node.world.l1
    script: dict[tuple[int, int], Logs] = {}
    world = ServedWorld(dependency_set(*begun, member(2)), 1, script)
    world.l1 = l1
    async with node_of(world, store, blocks=0) as node:
        node.first, joined = last + 1, node.chains[2]
        script[2, last - GENESIS_TIME] = (b"changed",)
        world._known.clear()
        world._block.cache_clear()
        joined._derived = None, []
        joined.restart()
        if restarts:
            await node.stop()
            await node.start()
        await node.until(lambda: node.stage._chains[2].status.reset == joined.reset)
        node.grow(4)
        assert await assert_true(node) > 8


async def test_logs_above_the_start_of_a_chain_go(tmp_path: Path) -> None:
    """[VR10]: where no round was verified yet, and a chain joins whose start is below what was read of the others."""
    store, begun = tmp_path / "interop", (member(1), member(3))
    async with node_of(ServedWorld(dependency_set(*begun), 1, {}), store) as node:
        read, l1 = node.first - 1, node.world.l1
    world = ServedWorld(dependency_set(*begun, member(2)), 1, {})
    world.l1 = l1
    async with node_of(world, store, blocks=0, leads={2: 3}) as node:
        assert node.first < read
        node.chains[2].lead_to(10**6)
        node.grow(6)
        assert await assert_true(node) > 12


async def test_a_chain_may_join_before_the_rounds_have_reached_its_genesis(tmp_path: Path) -> None:
    """[VR2, VR10]: it has none of its blocks in the rounds until then."""
    store, begun = tmp_path / "interop", (member(1), member(3))
    async with node_of(ServedWorld(dependency_set(*begun), 1, {}), store) as node:
        last, l1 = await verify_all(node), node.world.l1
    world = ServedWorld(dependency_set(*begun, member(2, genesis_time=last + 5)), 1, {})
    world.l1 = l1
    async with node_of(world, store) as node:
        node.first = last + 1
        node.grow(6)
        assert await assert_true(node) > 5
        await node.stop()
        with contextlib.closing(node.opened_store()) as rounds:
            members = [rounds.round_at(timestamp) for timestamp in (last + 4, last + 5)]
        assert [len(item.heads) for item in members if item is not None] == [2, 3]


@pytest.mark.condition("C16")
async def test_logs_that_the_engine_does_not_give_stop_the_rounds(tmp_path: Path) -> None:
    """[EM10]: a message of before the depth is neither valid nor invalid."""
    script: Script = {(2, 2): (b"said",), (1, 20): (claim(2, 2),)}
    async with node_of(ServedWorld(PAIR, 1, script), tmp_path / "interop", blocks=5, depth=3) as node:
        node.grow(4)
        node.follow()
        await node.until(lambda: node.code() is Code.INTEROP_LOGS and node.verdicts.timestamp == GENESIS_TIME + 19)
        assert node.problems[0].subject == "chain 2"


@pytest.mark.condition("C16")
async def test_a_gap_in_the_safe_head_database_is_named(tmp_path: Path) -> None:
    """[VR3]"""
    async with node_of(ServedWorld(PAIR, 1, {}), tmp_path / "interop") as node:
        last = await verify_all(node)
        node.chains[2].missing_history = 1000
        node.grow(3)
        node.follow()
        await node.until(lambda: node.code() is Code.INTEROP_HISTORY)
        assert node.problems[0].subject == "chain 2" and node.verdicts.timestamp < last + 3 * L1_STEP
        assert node.meter_value("supernode_interop_activity_state") == stage.HALTED
        node.chains[2].missing_history = 0
        await verify_all(node)
        assert node.code() is None and node.meter_value("supernode_interop_activity_state") == stage.RUNNING


async def test_without_rounds_verification_begins_after_such_a_gap(tmp_path: Path) -> None:
    """[VR10]: as after an engine has synced by itself, past what the database has."""
    async with node_of(ServedWorld(PAIR, 1, {}), tmp_path / "interop", blocks=2) as node:
        node.chains[1].missing_history = 12
        node.grow(6)
        node.follow()
        last, polls = derivable(node), iter(range(10**6))

        def goes_on() -> bool:
            if next(polls) % 100 == 0:
                node.grow()
                node.follow()
            return node.verdicts.timestamp > last

        await node.until(goes_on)


@pytest.mark.condition("C16")
async def test_a_chain_with_another_block_has_diverged(tmp_path: Path) -> None:
    """[VR11, VR14]: found at a start, and while rounds go on; nothing is decided."""
    async with node_of(ServedWorld(PAIR, 1, {}), tmp_path / "interop") as node:
        last = await verify_all(node)
        block = node.chains[1].blocks()[5].ref
        await node.stop()
        node.world.denied[1] = frozenset({(1, 5, block.hash)})
        await node.start()
        await node.until(lambda: node.code() is Code.INTEROP_DIVERGED)
        node.grow(2)
        node.follow()
        await node.until(lambda: node.told)
        assert node.verdicts.timestamp == last and node.verdict(1).denied == ()
        node.chains[1].reset += 1
        node.world.denied[1] = frozenset()
        node.follow()
        await verify_all(node)
        node.chains[1].reset += 1
        node.world.denied[1] = frozenset({(1, 5, block.hash)})
        node.grow(1)
        node.follow()
        await node.until(lambda: node.code() is Code.INTEROP_DIVERGED)


# --- the database ----------------------------------------------------------------------------------------------------


@pytest.mark.condition("C16")
async def test_damage_in_service_stops_the_rounds(tmp_path: Path) -> None:
    """[VDB3]: nothing is guessed of a log that was changed on disk."""
    script: Script = {(2, 6): (b"said",), (1, 20): (claim(2, 6),)}
    async with node_of(ServedWorld(PAIR, 1, script), tmp_path / "interop") as node:
        await verify_all(node)
        await node.stop()
        with contextlib.closing(sqlite3.connect(tmp_path / "interop")) as connection:
            connection.execute("update blocks set logs = ? where chain = 2 and number = 6", (bytes(32),))
            connection.commit()
        await node.start()
        node.grow(4)
        node.follow()
        await node.until(lambda: node.code() is Code.INTEROP_STORE and node.verdicts.timestamp == GENESIS_TIME + 19)
        assert node.verdict(1).denied == ()


async def test_transitions_have_other_numbers_after_the_file_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[VR6]: a chain that has carried out the last one does not take the next for it."""
    async with pair(tmp_path, {(1, 7): (OTHER,), (1, 30): (OTHER,)}) as node:
        await verify_all(node)
        first = node.verdict(1).transition
        await node.stop()
        for file in tmp_path.glob("interop*"):
            file.unlink()
        monkeypatch.setattr("time.time", lambda: first + 60.0)
        await node.start()
        await node.until_prepared()
        node.grow(10)
        await verify_all(node)
        assert [block.number for block in node.verdict(1).denied] == [30]
        assert node.verdict(1).transition > first
