"""The state of the node and the lag of derivation. test_progress.py has the changes of state that the log shows."""

from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import EL_SYNC
from rollup_node.stages.protocol.types import ZERO_HASH, L1BlockRef
from rollup_node.stages.rpc.status.node_state import HOLD_SECONDS, SLOW_SECONDS, L1Lag, NodeState, SlowSync
from rollup_node.stages.rpc.status.node_status import State
from rollup_node.stages.rpc.status.readiness import UnreadyReason


def ref(number: int) -> L1BlockRef:
    return L1BlockRef(ZERO_HASH, number, ZERO_HASH, 0)


def reading(number: int | None, idle: bool = False, reset: int = 1) -> DerivationStatus:
    return DerivationStatus(reset, None if number is None else ref(number), idle, 0)


def test_a_state_applies_since_it_was_first_seen() -> None:
    node = NodeState(derives=True)
    assert node.step((), 0, 10.0) is State.SYNCED
    assert node.since == 10.0
    faults = (UnreadyReason("blobs", Problem(None, "", "away")),)
    assert node.step((), 0, 20.0) is State.SYNCED
    assert [node.step(faults, 0, second) for second in (20.5, 22.0, 19.9 + HOLD_SECONDS)] == [State.SYNCED] * 3
    assert node.step(faults, 0, 20.0 + HOLD_SECONDS) is State.WAITING
    assert node.since == 20.5


def test_an_el_sync_is_one_with_and_without_progress() -> None:
    """[LOG7] Without progress its problem has a code; a call of that name that fails is no sync."""
    moving = Problem(None, EL_SYNC, "the execution engine syncs to block 9")
    stalled = Problem(Code.EL_SYNC_STALLED, EL_SYNC, "9 blocks to go, no new block for 5 min")
    node = NodeState(derives=True)
    for second, problem in ((0.0, moving), (10.0, stalled), (22.0, stalled)):
        assert node.step((UnreadyReason("engine", problem),), None, second) is State.EL_SYNC
    for process, problem in (("engine", Problem(Code.ENGINE_UNREACHABLE, EL_SYNC, "x")), ("l1", moving)):
        assert NodeState(derives=True).step((UnreadyReason(process, problem),), None, 0.0) is State.STARTING


def test_lag_of_a_derivation_that_is_not_known() -> None:
    lag = L1Lag()
    for head, derivation in ((None, None), (ref(9), None), (None, reading(5)), (ref(9), reading(None))):
        assert lag.step(head, derivation, 0.0) is None
        assert lag.is_over(12, 0.0)


def test_a_lag_over_the_limit_counts_once_it_lasts() -> None:
    """[RPC92] Before derivation has kept up once, it counts at once, and so it does after a reset."""
    lag = L1Lag()
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
    """[LOG8] With a supervisor, which provides the L1 blocks one by one."""
    lag = L1Lag()
    lag.step(ref(100), reading(80, idle=True), 0.0)
    assert lag.step(ref(100), reading(80, idle=True), 2.0) == 0
    assert lag.step(ref(103), reading(80, idle=True), 3.0) == 3


def test_confirmations_do_not_count() -> None:
    """[LOG8] `verifier.l1-confs`, also on an L1 whose head never rests."""
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


def test_a_sync_that_reads_l1_before_its_first_batch_is_not_slow() -> None:
    slow = SlowSync()
    for second in range(100):
        assert not slow.step(State.SYNCING, 0.0, 0.5, 4000 - 12 * (second // 10), float(second))
