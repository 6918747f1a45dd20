"""The check of the memory that is left."""

import pytest

from rollup_node.node.checks.finding import Level
from rollup_node.node.checks.memory import check_memory
from rollup_node.node.system.memory import Memory
from rollup_node.stages.messages.codes import Code


@pytest.mark.sign("MEMORY", check=True)
def test_the_findings() -> None:
    little = check_memory(lambda: Memory(4 * 10**9, 10**8))
    assert (little.level, little.code, little.text) == (Level.WARNING, Code.MEMORY, "100 MB of 4000 MB are left")
    assert check_memory(lambda: Memory(4 * 10**9, 10**9)).level is Level.OK
    assert check_memory(lambda: None).level is Level.NOT_CHECKED
