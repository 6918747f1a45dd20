"""The state of the node, and whether derivation keeps up with L1 [LOG7, LOG8, RPC92]."""

from collections.abc import Sequence

from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import EL_SYNC
from rollup_node.stages.protocol.types import L1BlockRef
from rollup_node.stages.rpc.status.node_status import State
from rollup_node.stages.rpc.status.readiness import UnreadyReason

HOLD_SECONDS = 5.0
"""A state is left when it has not applied for so long; so this is the least time between two changes."""
BEHIND_BLOCKS, CAUGHT_UP_BLOCKS = 12, 3
"""A synced node is syncing again when it is more than so many L1 blocks behind, and synced when at most so many."""
SETTLED_SECONDS = 2.0
SLOW_SECONDS = 20.0
"""A sync is slow when its speed, that of the last minute, has been below the chain's for so long."""


class NodeState:
    """The state, which changes when another one has applied for a while; `since` is when the present one began.

    `current` is the one that applies."""

    def __init__(self, derives: bool) -> None:
        self.state = self.current = State.STARTING
        self.since: float | None = None
        self._derives = derives
        self._began: float | None = None
        self._applied = 0.0
        self._other: tuple[State, float] | None = None

    def step(self, faults: Sequence[UnreadyReason], behind: int | None, now: float) -> State:
        """Return the state now; `behind` are the L1 blocks that derivation may read already, None while unknown."""
        if self._began is None:
            self._began = self._applied = self.since = now
        state = self.current = self._current(faults, behind)
        if state is self.state:
            self._applied, self._other = now, None
            return state
        if self._other is None or self._other[0] is not state:
            self._other = state, now
        # The first state is left at once, unless it has been seen already.
        held = now - (self._began if self.state is State.STARTING else self._applied)
        if held >= HOLD_SECONDS or (self.state is State.STARTING and now == self._began):
            self.state, self.since = self._other
            self._applied, self._other = now, None
        return self.state

    def _current(self, faults: Sequence[UnreadyReason], behind: int | None) -> State:
        if any(map(_is_el_sync, faults)):
            return State.EL_SYNC
        if faults:
            return State.STARTING if self.state is State.STARTING else State.WAITING
        if not self._derives:
            return State.FOLLOWING
        if behind is None:
            return State.STARTING if self.state is State.STARTING else State.SYNCING
        limit = BEHIND_BLOCKS if self.state is State.SYNCED else CAUGHT_UP_BLOCKS
        return State.SYNCED if behind <= limit else State.SYNCING


def _is_el_sync(fault: UnreadyReason) -> bool:
    """Return whether the engine syncs by itself; a failed call of that name is another problem."""
    problem = fault.problem
    return fault.process == "engine" and problem.subject == EL_SYNC and problem.code in (None, Code.EL_SYNC_STALLED)


class L1Lag:
    """How many L1 blocks derivation could read already, `confs` below the head, and whether that is over a limit."""

    def __init__(self, confs: int = 0) -> None:
        self._confs = confs
        self.behind: int | None = None
        self._tip_gap = 0
        self._head_since: tuple[int, float] = (-1, 0.0)
        self._kept_up: float | None = None
        self._reset: int | None = None

    def step(self, head: L1BlockRef | None, derivation: DerivationStatus | None, now: float) -> int | None:
        """Return the blocks, None while unknown; the distance of an idle derivation to the head does not count."""
        if derivation is not None and derivation.reset != self._reset:
            self._reset, self._kept_up = derivation.reset, None
        self.behind = self._behind(head, derivation, now)
        return self.behind

    def is_over(self, limit: int, now: float) -> bool:
        """Return whether derivation is more than `limit` behind, for HOLD_SECONDS if it has kept up since its start."""
        # A poll of a fast L1 brings many blocks at once.
        if self.behind is not None and self.behind <= limit:
            self._kept_up = now
        return self._kept_up is None or now - self._kept_up >= HOLD_SECONDS

    def _behind(self, head: L1BlockRef | None, derivation: DerivationStatus | None, now: float) -> int | None:
        if derivation is None or derivation.current_l1 is None or head is None:
            return None
        gap = head.number - derivation.current_l1.number
        if head.number != self._head_since[0]:
            self._head_since = head.number, now
        # A new head may come before derivation has published that it reads on.
        if derivation.idle and now - self._head_since[1] >= SETTLED_SECONDS:
            self._tip_gap = max(gap, 0)
        return max(gap - max(self._tip_gap, self._confs), 0)


class SlowSync:
    """Whether a sync does not come to an end: its safe head is no faster than the chain, and its L1 lag stays.

    The L1 blocks that are left to read become fewer before the first batch and between batches."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._lag: int | None = None
        self._is_slow = False

    def step(self, state: State, speed: float | None, chain_speed: float, lag_s: int | None, now: float) -> bool:
        """Take the state, both speeds in blocks a second, and the seconds from the L1 block read to the L1 head."""
        if state is not State.SYNCING or speed is None or speed > chain_speed:
            self._since, self._is_slow = None, False
            return False
        gets_on = lag_s is not None and self._lag is not None and lag_s < self._lag
        if self._since is None or gets_on:
            self._since = now
        self._lag = lag_s
        # Once it is slow, a batch now and then does not end that.
        self._is_slow = self._is_slow or now - self._since >= SLOW_SECONDS
        return self._is_slow
