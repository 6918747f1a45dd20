"""Whether the machine has memory for a node."""

from collections.abc import Callable

from rollup_node.node.checks.finding import Finding, not_checked, ok, warning
from rollup_node.node.system.memory import Memory, in_mb, is_little, read_memory
from rollup_node.stages.messages.codes import Code

CHECK = "memory"


def check_memory(read: Callable[[], Memory | None] = read_memory) -> Finding:
    """Return the finding for the memory that is left."""
    memory = read()
    if memory is None:
        return not_checked(CHECK, "the system does not say how much there is")
    text = f"{in_mb(memory.available)} of {in_mb(memory.total)} are left"
    return warning(CHECK, Code.MEMORY, text) if is_little(memory) else ok(CHECK, text)
