"""The state of the node, why it is not ready, warnings about forks to come [RPC2, RPC92, RPC93, LOG7, UPG22, ENG42]."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import EL_SYNC, EngineStatus, ForkDoubt
from rollup_node.stages.messages.l1 import L1Heads
from rollup_node.stages.protocol.config import RollupConfig, utc_time
from rollup_node.stages.protocol.texts import duration
from rollup_node.stages.protocol.types import L1BlockRef, L2BlockRef
from rollup_node.stages.protocol.upgrade_transactions import ForkBundle, unconfirmed_bundles
from rollup_node.stages.rpc.config import RpcConfig
from rollup_node.stages.rpc.status import node_status
from rollup_node.stages.rpc.status.node_status import State

STALE_SECONDS = 2.5

_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,3})?", re.ASCII)


class UnreadyReason(NamedTuple):
    """Why the node is not ready: a problem, and the process that has it. `head` is the one that is too old."""

    process: str
    problem: Problem
    head: str = ""

    def __str__(self) -> str:
        """Print it as `/readyz` does."""
        return f"{self.process}: {self.problem}"


class Readiness(NamedTuple):
    """Why a node is not ready, and what its operator should mend all the same, a line for each."""

    reasons: list[str]
    warnings: list[str]


def process_faults(
    health: Mapping[str, tuple[Problem, ...]],
    ages: Mapping[str, float | None],
    l1: L1Heads | None,
    engine: EngineStatus | None,
) -> list[UnreadyReason]:
    """Return what is wrong by the problems that each process publishes, and the seconds since its last status."""
    faults: list[UnreadyReason] = []
    for process, age in ages.items():
        if age is None:
            faults.append(_reason(process, "no status received yet"))
        elif age > STALE_SECONDS:
            faults.append(_reason(process, f"no status for {age:.1f} s", Code.PROCESS_SILENT))
        faults += [UnreadyReason(process, problem) for problem in health.get(process, ())]
    if l1 is None or l1.head is None:
        faults.append(_reason("l1", "L1 head not known yet"))
    if engine is None or engine.unsafe is None:
        faults.append(_reason("engine", "L2 heads not known yet"))
    return faults


def l1_lag_reason(l1: node_status.L1Status, limit: int) -> UnreadyReason:
    """Why the node is not ready while derivation is too far behind the L1 head [RPC92]."""
    if l1.lag_blocks is None or l1.current is None or l1.head is None:
        return _reason("derivation", "the L1 block that it reads is not known yet")
    behind = f"{l1.lag_blocks} L1 blocks behind, at {l1.current.number} of {l1.head.number}"
    return _reason("derivation", f"{behind} ({duration(l1.lag_s or 0)}); the limit is {limit}", Code.BEHIND)


def slow_sync_reason(progress: node_status.DerivationProgress, chain_speed: float) -> UnreadyReason:
    """Why the lag does not become smaller, beside the reason for the lag; `chain_speed` in blocks a second."""
    speeds = f"the safe head moves by {progress.blocks_per_s:g} blocks/s, the chain by {chain_speed:g}"
    limit = f"; limited by {progress.limited_by}" if progress.limited_by is not None else ""
    return _reason("derivation", f"{speeds}{limit}", Code.SYNC_SLOW)


def age_reasons(heads: node_status.HeadsStatus, config: RpcConfig) -> list[UnreadyReason]:
    """Return the L2 heads that are older than the options allow [RPC92]."""
    reasons = []
    limits = (("unsafe", heads.unsafe, config.ready_unsafe_age), ("safe", heads.safe, config.ready_safe_age))
    for name, head, limit in limits:
        if limit and head is not None and head.age_s > limit:
            age = f"the {name} head {head.number} is {head.age_s:.1f} s old"
            reasons.append(_reason("engine", f"{age}; the limit is {limit:g} s", Code.HEAD_OLD, name))
    return reasons


def _reason(process: str, text: str, code: Code | None = None, head: str = "") -> UnreadyReason:
    return UnreadyReason(process, Problem(code, "", text), head)


def read_lag(values: list[str]) -> float | None:
    """Return the seconds of the query `?lag=`, None without one [RPC93]. Raises ValueError unless it is a number."""
    if not values:
        return None
    if len(values) > 1 or not _SECONDS.fullmatch(values[0]):
        raise ValueError(f"lag must be one number of seconds, such as 30 or 2.5, not {','.join(values)[:80]!r}")
    return float(values[0])


def lag_reason(status: node_status.NodeStatus, seconds: float) -> str | None:
    """Why the node is not ready for a client that takes no unsafe head older than `seconds` [RPC93]."""
    head = status.heads.unsafe
    if head is None:
        return "lag: the age of the unsafe head is not known yet"
    if head.age_s <= seconds:
        return None
    return f"lag: the unsafe head {head.number} is {head.age_s:.1f} s old; the request allows {seconds:g} s"


def upgrade_warnings(rollup: RollupConfig, safe: L2BlockRef | None, wall: float) -> list[node_status.StatusWarning]:
    """Return this chain's bundles that may be wrong, until the safe head is well after the fork (`wall`: Unix s)."""
    code = Code.BUNDLE_UNCONFIRMED
    return [
        node_status.StatusWarning(
            code.text,
            bundle_warning(unconfirmed_bundle, wall),
            code.meaning,
            bundle_remedy(unconfirmed_bundle.fork),
            unconfirmed_bundle.time,
        )
        for unconfirmed_bundle in unconfirmed_bundles(rollup)
        if safe is None or not unconfirmed_bundle.is_proven(safe.timestamp)
    ]


def engine_warnings(doubts: Iterable[ForkDoubt], wall: float) -> list[node_status.StatusWarning]:
    """Return the forks that the engine seems not to know, until they begin; `wall` in Unix seconds."""
    code = Code.FORK_MISMATCH
    return [
        node_status.StatusWarning(code.text, doubt_text(doubt, wall), code.meaning, code.remedy, doubt.time)
        for doubt in doubts
        if doubt.time > wall
    ]


def doubt_text(doubt: ForkDoubt, wall: float) -> str:
    """Return the line for an operator; `wall` in Unix seconds."""
    return f"{doubt.fork} begins at {utc_time(doubt.time)}, in {duration(doubt.time - wall)}, and {doubt.reason}"


def bundle_warning(upgrade: ForkBundle, wall: float) -> str:
    """Return the line for an operator; `wall` in Unix seconds."""
    due = f"activates in {duration(upgrade.time - wall)}" if upgrade.time > wall else "has activated"
    bundle = f"its upgrade bundle {upgrade.bundle.sha256[:8]} ({upgrade.bundle.origin}) is not confirmed by a release"
    return f"{upgrade.fork} {due} ({utc_time(upgrade.time)}), and {bundle}"


def bundle_remedy(fork: str) -> str:
    """Return what the operator can do, for this fork."""
    return Code.BUNDLE_UNCONFIRMED.remedy.replace("lagoon", fork)


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
        self._applied = 0.0
        self._other: tuple[State, float] | None = None

    def step(self, faults: Sequence[UnreadyReason], behind: int | None, now: float) -> State:
        """Return the state now; `behind` are the L1 blocks that derivation may read already, None while unknown."""
        if self.since is None:
            self._applied = self.since = now
        state = self.current = self._current(faults, behind)
        if state is self.state:
            self._applied, self._other = now, None
            return state
        if self._other is None or self._other[0] is not state:
            self._other = state, now
        # The first state is left at once, unless it has been seen already.
        held = now - (self.since if self.state is State.STARTING else self._applied)
        if held >= HOLD_SECONDS or (self.state is State.STARTING and now == self.since):
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
        self.is_slow = False

    def step(self, state: State, speed: float | None, chain_speed: float, lag_s: int | None, now: float) -> bool:
        """Take the state, both speeds in blocks a second, and the seconds from the L1 block read to the L1 head."""
        if state is not State.SYNCING or speed is None or speed > chain_speed:
            self._since, self.is_slow = None, False
            return False
        gets_on = lag_s is not None and self._lag is not None and lag_s < self._lag
        if self._since is None or gets_on:
            self._since = now
        self._lag = lag_s
        # Once it is slow, a batch now and then does not end that.
        self.is_slow = self.is_slow or now - self._since >= SLOW_SECONDS
        return self.is_slow
