"""Readiness of the node: the reasons that `/readyz` gives while it is not ready [RPC2]."""

from collections.abc import Mapping

from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.messages.l1 import L1Heads

STALE_SECONDS = 3.0


def not_ready_reasons(
    health: Mapping[str, tuple[str, ...]],
    ages: Mapping[str, float | None],
    l1: L1Heads | None,
    engine: EngineStatus | None,
) -> list[str]:
    """Everything that keeps the node from being ready, process by process; empty when it is ready. `health` are the
    problems that each process publishes, `ages` the seconds since its last status, None before the first."""
    reasons: list[str] = []
    for process, age in ages.items():
        if age is None:
            reasons.append(f"{process}: no status received yet")
        elif age > STALE_SECONDS:
            reasons.append(f"{process}: no status for {age:.1f} s")
        reasons += [f"{process}: {problem}" for problem in health.get(process, ())]
    if l1 is None or l1.head is None:
        reasons.append("l1: L1 head not known yet")
    if engine is None or engine.unsafe is None:
        reasons.append("engine: L2 heads not known yet")
    return reasons
