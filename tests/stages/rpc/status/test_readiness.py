"""The reasons of a node that is not ready. The state of the node and the lag of derivation. test_progress.py has
the changes of state that the log shows."""

import msgspec
import pytest

from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import EL_SYNC, EngineStatus, ForkDoubt
from rollup_node.stages.messages.l1 import L1Heads
from rollup_node.stages.protocol.types import ZERO_HASH, ZERO_L1_REF, ZERO_L2_REF, BlockId, L1BlockRef, L2BlockRef
from rollup_node.stages.protocol.upgrade_transactions import PROVEN_SECONDS, load_bundle
from rollup_node.stages.rpc.config import RpcConfig
from rollup_node.stages.rpc.status.node_status import BlockStatus, DerivationProgress, HeadsStatus, L1Status, State
from rollup_node.stages.rpc.status.readiness import (
    BEHIND_BLOCKS,
    CAUGHT_UP_BLOCKS,
    HOLD_SECONDS,
    SLOW_SECONDS,
    L1Lag,
    NodeState,
    SlowSync,
    UnreadyReason,
    age_reasons,
    engine_warnings,
    l1_lag_reason,
    process_faults,
    read_lag,
    slow_sync_reason,
    upgrade_warnings,
)
from tests.support.chains.plain_rollup import PLAIN_ROLLUP

L1 = L1Heads(ZERO_L1_REF, None, None)
ENGINE = EngineStatus(1, ZERO_L2_REF, ZERO_L2_REF, ZERO_L2_REF, ZERO_L2_REF, ZERO_L2_REF, False, False)
AWAY = Problem(None, "", "endpoint is away")
AGES = {"l1": 0.5, "engine": 0.1}


def block(number: int, age: float = 0.0) -> BlockStatus:
    return BlockStatus(number, "0x", 0, age)


@pytest.mark.sign("PROCESS-SILENT", readyz=True)
def test_each_fault() -> None:
    assert process_faults({"l1": ()}, AGES, L1, ENGINE) == []
    assert process_faults({"l1": (AWAY,)}, AGES, L1, ENGINE) == [UnreadyReason("l1", AWAY)]
    silent = ["l1: no status received yet", "engine: PROCESS-SILENT: no status for 3.5 s"]
    assert list(map(str, process_faults({}, {"l1": None, "engine": 3.5}, L1, ENGINE))) == silent
    searching = EngineStatus(1, None, None, None, None, None, False, False)
    unknown = ["l1: L1 head not known yet", "engine: L2 heads not known yet"]
    for l1, engine in ((None, None), (L1Heads(None, None, None), searching)):
        assert list(map(str, process_faults({}, AGES, l1, engine))) == unknown


def limits(safe: float = 0.0, unsafe: float = 0.0) -> RpcConfig:
    return RpcConfig("v1", PLAIN_ROLLUP, ready_safe_age=safe, ready_unsafe_age=unsafe)


@pytest.mark.sign("HEAD-OLD", readyz=True)
def test_reasons_of_lag_have_numbers() -> None:
    """[RPC92]"""
    l1 = L1Status(block(54), block(285), None, None, lag_blocks=231, lag_s=2772)
    lag = l1_lag_reason(l1, 12)
    assert lag.problem.code is Code.BEHIND
    assert str(lag) == "derivation: BEHIND: 231 L1 blocks behind, at 54 of 285 (46m12s); the limit is 12"
    unknown = L1Status(None, block(285), None, None, None, None)
    assert str(l1_lag_reason(unknown, 12)) == "derivation: the L1 block that it reads is not known yet"
    heads = HeadsStatus(block(7, 30.0), block(5, 600.5), None)
    assert age_reasons(heads, limits()) == []
    assert age_reasons(heads, limits(600.5, 30.0)) == []
    assert age_reasons(HeadsStatus(None, None, None), limits(1, 1)) == []
    assert list(map(str, age_reasons(heads, limits(600, 29.5)))) == [
        "engine: HEAD-OLD: the unsafe head 7 is 30.0 s old; the limit is 29.5 s",
        "engine: HEAD-OLD: the safe head 5 is 600.5 s old; the limit is 600 s",
    ]
    assert str(slow_sync_reason(DerivationProgress(600, 0.4, None, "blobs", None), 0.5)) == (
        "derivation: SYNC-SLOW: the safe head moves by 0.4 blocks/s, the chain by 0.5; limited by blobs"
    )


def test_the_lag_of_a_request() -> None:
    assert [read_lag(values) for values in ([], ["0"], ["30"], ["2.5"])] == [None, 0.0, 30.0, 2.5]
    for values in ([""], ["x"], ["-1"], ["1e3"], ["nan"], ["1", "2"], ["9" * 400], ["٣"], ["5\n"]):
        with pytest.raises(
            ValueError, match=r"\Alag must be one number of seconds, such as 30 or 2\.5, not '.{0,83}'\Z"
        ):
            read_lag(values)


TIME = 1796918401
CROSSES = msgspec.structs.replace(PLAIN_ROLLUP, fork_times={"karst": 5, "lagoon": TIME})
CONFIRMED = msgspec.structs.replace(load_bundle("lagoon"), confirmed_by="the operator")
H = b"\1" * 32


def safe(time: int) -> L2BlockRef:
    return L2BlockRef(H, 7, H, time, BlockId(1, H), 0)


def test_a_fork_to_come() -> None:
    """The warning ends when batches were derived on the activation block."""
    (result,) = upgrade_warnings(CROSSES, None, TIME - 3 * 86_400 - 7200)
    assert result.code == "BUNDLE-UNCONFIRMED" and "--rollup.lagoon-bundle=FILE" in result.do
    assert result.text.startswith("lagoon activates in 3d2h (2026-12-10T16:00:01Z), and its upgrade bundle ")
    assert load_bundle("lagoon").sha256[:8] in result.text
    (result,) = upgrade_warnings(CROSSES, safe(TIME + PROVEN_SECONDS - 1), TIME + 9000)
    assert "has activated" in result.text
    assert upgrade_warnings(CROSSES, safe(TIME + PROVEN_SECONDS), TIME + 9000) == []


def test_chains_without_a_warning() -> None:
    """No fork, Karst, one at genesis, and one that is confirmed."""
    assert upgrade_warnings(PLAIN_ROLLUP, None, 0.0) == []
    for change in ({"fork_times": {"karst": TIME}}, {"fork_times": {"lagoon": 0}}, {"bundles": {"lagoon": CONFIRMED}}):
        assert upgrade_warnings(msgspec.structs.replace(CROSSES, **change), None, 0.0) == []


@pytest.mark.condition("C13")
def test_an_engine_that_seems_not_to_know_a_fork() -> None:
    doubt = ForkDoubt("lagoon", TIME, "OP-Reth 2.3.2 does not have it")
    (result,) = engine_warnings([doubt], TIME - 86_400)
    assert result.text == "lagoon begins at 2026-12-10T16:00:01Z, in 1d0h, and OP-Reth 2.3.2 does not have it"
    assert (result.code, result.due) == ("FORK-MISMATCH", TIME) and "upgrade" in result.do
    assert engine_warnings([doubt], TIME) == []


def ref(number: int) -> L1BlockRef:
    return L1BlockRef(ZERO_HASH, number, ZERO_HASH, 0)


def reading(number: int | None, idle: bool = False, reset: int = 1) -> DerivationStatus:
    return DerivationStatus(reset, None if number is None else ref(number), idle)


def test_a_state_applies_since_it_was_first_seen() -> None:
    node = NodeState(derives=True)
    assert node.step((), 0, 10.0) is State.SYNCED
    assert node.since == 10.0
    faults = (UnreadyReason("blobs", Problem(None, "", "away")),)
    assert node.step((), 0, 20.0) is State.SYNCED
    assert [node.step(faults, 0, second) for second in (20.5, 22.0, 19.9 + HOLD_SECONDS)] == [State.SYNCED] * 3
    assert node.step(faults, 0, 20.0 + HOLD_SECONDS) is State.WAITING
    assert node.since == 20.5
    node = NodeState(derives=True)
    states = [node.step((), None if second < 11 else 0, second) for second in (10.0, 11.0, 9.9 + HOLD_SECONDS)]
    assert states == [State.STARTING] * 3 and node.step((), 0, 10.0 + HOLD_SECONDS) is State.SYNCED


def test_between_the_two_limits_a_state_stays_as_it_is() -> None:
    for began, behind, expected in (
        (0, BEHIND_BLOCKS, State.SYNCED),
        (0, BEHIND_BLOCKS + 1, State.SYNCING),
        (99, CAUGHT_UP_BLOCKS + 1, State.SYNCING),
        (99, CAUGHT_UP_BLOCKS, State.SYNCED),
    ):
        node = NodeState(derives=True)
        for second in range(20):
            state = node.step((), began if second < 2 else behind, float(second))
        assert state is expected


def test_an_el_sync_is_one_with_and_without_progress() -> None:
    """[LOG7] Without progress its problem has a code; a call of that name that fails is no sync."""
    moving = Problem(None, EL_SYNC, "the execution engine syncs to block 9")
    stalled = Problem(Code.EL_SYNC_STALLED, EL_SYNC, "9 blocks to go, no new block for 5 min")
    node = NodeState(derives=True)
    for second, problem in ((0.0, moving), (10.0, stalled), (22.0, stalled)):
        assert node.step((UnreadyReason("engine", problem),), None, second) is State.EL_SYNC
    for process, problem in (("engine", Problem(Code.ENGINE_UNREACHABLE, EL_SYNC, "x")), ("l1", moving)):
        assert NodeState(derives=True).step((UnreadyReason(process, problem),), None, 0.0) is State.STARTING


def test_a_lag_over_the_limit_counts_once_it_lasts() -> None:
    """[RPC92] Before derivation has kept up once, it counts at once, and so it does after a reset or while unknown."""
    lag = L1Lag()
    for head, derivation in ((None, None), (ref(9), None), (None, reading(5)), (ref(9), reading(None))):
        assert lag.step(head, derivation, 0.0) is None and lag.is_over(12, 0.0)
    assert lag.step(ref(100), reading(80), 0.0) == 20
    assert lag.is_over(12, 0.0)
    assert lag.step(ref(100), reading(88), 1.0) == 12
    assert not lag.is_over(12, 1.0)
    # One poll of a fast L1 brings many blocks.
    lag.step(ref(150), reading(88), 2.0)
    assert not lag.is_over(12, 2.0)
    lag.step(ref(150), reading(140), 3.0)
    assert not lag.is_over(12, 3.0)
    lag.step(ref(200), reading(140), 4.0)
    assert not lag.is_over(12, 2.9 + HOLD_SECONDS)
    assert lag.is_over(12, 3.0 + HOLD_SECONDS)
    lag.step(ref(200), reading(195), 20.0)
    assert not lag.is_over(12, 20.0)
    lag.step(ref(200), reading(187, reset=2), 20.5)
    assert lag.is_over(12, 20.5)


def test_what_an_idle_derivation_may_not_read_does_not_count() -> None:
    """[LOG8] With a supervisor, which provides the L1 blocks one by one, and with `verifier.l1-confs`, also on an L1
    whose head never rests."""
    lag = L1Lag()
    lag.step(ref(100), reading(80, idle=True), 0.0)
    assert lag.step(ref(100), reading(80, idle=True), 2.0) == 0
    assert lag.step(ref(103), reading(80, idle=True), 3.0) == 3
    lag = L1Lag(confs=20)
    for head in range(100, 110):
        assert lag.step(ref(head), reading(head - 20, idle=True), (head - 100) / 10) == 0
    assert lag.step(ref(110), reading(85), 1.0) == 5
    assert lag.step(ref(110), reading(108), 1.0) == 0


def test_a_sync_without_an_end() -> None:
    slow = SlowSync()
    assert not slow.step(State.SYNCING, 0.4, 0.5, 600, 0.0)
    assert not slow.step(State.SYNCING, 0.4, 0.5, 612, SLOW_SECONDS - 1)
    assert slow.step(State.SYNCING, 0.4, 0.5, 612, SLOW_SECONDS)
    assert slow.step(State.SYNCING, 0.4, 0.5, 600, SLOW_SECONDS + 1), "a batch now and then does not end it"
    assert not slow.step(State.SYNCING, 0.6, 0.5, 600, SLOW_SECONDS + 2)
    assert not slow.step(State.SYNCED, 0.4, 0.5, 600, SLOW_SECONDS + 3)
    assert not slow.step(State.SYNCING, None, 0.5, 600, SLOW_SECONDS + 4), "the speed is not known yet"
    slow = SlowSync()
    for second in range(100):
        assert not slow.step(State.SYNCING, 0.0, 0.5, 4000 - 12 * (second // 10), float(second)), "it reads L1"
