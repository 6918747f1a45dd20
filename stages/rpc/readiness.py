"""Whether the node is fit to serve, and if not, why (for `/readyz`)."""

from collections.abc import Mapping

from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.messages.l1 import L1Heads

STALE_SECONDS = 3.0


def reasons(
    health: Mapping[str, tuple[str, ...]],
    ages: Mapping[str, float | None],
    l1: L1Heads | None,
    engine: EngineStatus | None,
) -> list[str]:
    """Everything that is wrong, process by process; empty when the node is ready. `ages` are seconds since each
    process was last heard of, None if it never was."""
    found: list[str] = []
    for process, age in ages.items():
        if age is None:
            found.append(f"{process}: not heard of yet")
        elif age > STALE_SECONDS:
            found.append(f"{process}: not heard of for {age:.1f} s")
        found += [f"{process}: {problem}" for problem in health.get(process, ())]
    if l1 is None or l1.head is None:
        found.append("l1: no L1 head yet")
    if engine is None or engine.unsafe is None:
        found.append("engine: no start yet")
    return found
