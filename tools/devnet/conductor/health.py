"""Whether a sequencer is healthy, by the checks of op-conductor's health monitor, and what its conductor does then."""

from enum import Enum
from typing import NamedTuple

UNREACHABLE_POLLS = 2
"""So many polls in a row without an answer make a sequencer unhealthy: its rpc process may be starting again."""


class SequencerReport(NamedTuple):
    """What a sequencer answers; times in Unix seconds, `peers` None where P2P is disabled."""

    head_number: int
    head_hash: bytes
    head_time: int
    safe_time: int
    safe_number: int
    safe_hash: bytes
    peers: int | None
    active: bool


class HealthChecks(NamedTuple):
    """The greatest ages of the unsafe and the safe head in seconds, and the least number of peers; 0 for no check."""

    unsafe_interval: float
    safe_interval: float = 0.0
    min_peers: int = 0

    def problem(self, report: SequencerReport, now: float, leads_since: float) -> str | None:
        """Why a sequencer is unhealthy at a Unix time; None if it is not. A head that was old when the sequencer began
        to lead is no fault of it: `leads_since` counts instead."""
        unsafe_age = now - max(report.head_time, leads_since)
        if unsafe_age > self.unsafe_interval:
            return f"its unsafe head {report.head_number} has not advanced for {unsafe_age:.1f} s"
        safe_age = now - max(report.safe_time, leads_since)
        if self.safe_interval and safe_age > self.safe_interval:
            return f"its safe head {report.safe_number} has not advanced for {safe_age:.1f} s"
        if self.min_peers and (report.peers or 0) < self.min_peers:
            return f"it has {report.peers or 0} peers"
        return None


class Action(Enum):
    """What a conductor does with its sequencer."""

    NONE = "none"
    START = "start"
    STOP = "stop"
    TRANSFER = "transfer"


def action(*, leads: bool, healthy: bool, active: bool | None) -> Action:
    """The action for a sequencer in this state; `active` is None while it does not answer.

    | leads | healthy | active | action                            |
    |-------|---------|--------|-----------------------------------|
    | no    | any     | yes    | STOP                              |
    | no    | any     | no     | NONE                              |
    | yes   | no      | any    | TRANSFER; it is stopped afterwards |
    | yes   | yes     | no     | START                             |
    | yes   | yes     | yes    | NONE                              |
    """
    if not leads:
        return Action.STOP if active else Action.NONE
    if not healthy:
        return Action.TRANSFER
    return Action.NONE if active else Action.START


def best(candidates: dict[str, SequencerReport | None], problems: dict[str, str | None]) -> str | None:
    """The sequencer to lead next: of the healthy ones, else of those that answer, the one with the highest head."""
    answering = {name: report for name, report in candidates.items() if report is not None}
    healthy = {name: report for name, report in answering.items() if problems.get(name) is None}
    pool = healthy or answering
    return max(pool, key=lambda name: pool[name].head_number, default=None)
