"""The order in which a chain's forks may activate [CFG24, CFG25]."""

from collections.abc import Mapping

from rollup_node.stages.protocol.forks.table import FORK_NAMES

FIRST_CHECKED = FORK_NAMES.index("regolith")
FIRST_ALONE = FORK_NAMES.index("jovian")


def fork_order_error(times: Mapping[str, int], genesis_time: int) -> str | None:
    """op-node's text for the first violation of the fork order, or None. Every fork needs its predecessor at the same
    time or earlier; from Jovian on two forks may share a time only at or before genesis."""
    for index in range(FIRST_CHECKED + 1, len(FORK_NAMES)):
        prior, name = FORK_NAMES[index - 1 : index + 1]
        start, before = times.get(name), times.get(prior)
        if start is None:
            continue
        if before is None:
            return f"fork {name} set (to {start}), but prior fork {prior} missing"
        if before > start:
            return f"fork {name} set to {start}, but prior fork {prior} has higher offset {before}"
        if before == start > genesis_time and index >= FIRST_ALONE:
            return f"fork {name} set to {start}, but prior fork {prior} activates at the same time after genesis"
    return None


DEPENDENCY_FORK = POST_EXEC_FORK = "lagoon"


def dependency_set_needed_from(times: Mapping[str, int]) -> int | None:
    """The time in seconds from which the chain executes messages of other chains and so needs a dependency set
    [UPG20]; None if it never does."""
    return times.get(DEPENDENCY_FORK)


def post_exec_transactions_from(times: Mapping[str, int]) -> int | None:
    """The time in seconds from which blocks may have a post-exec transaction; None if they never may."""
    return times.get(POST_EXEC_FORK)
