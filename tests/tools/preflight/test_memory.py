"""The check of the memory that is left."""

import pytest

from rollup_node.node.checks.finding import FindingLevel
from rollup_node.node.system.memory import Memory
from rollup_node.stages.messages.codes import Code
from rollup_node.tools.preflight.memory import check_memory


@pytest.mark.sign("MEMORY", check=True)
def test_the_findings() -> None:
    little = check_memory(lambda: Memory(4 * 10**9, 10**8))
    assert (little.level, little.code, little.text) == (FindingLevel.WARNING, Code.MEMORY, "100 MB of 4000 MB are left")
    assert check_memory(lambda: Memory(4 * 10**9, 10**9)).level is FindingLevel.OK
    assert check_memory(lambda: None).level is FindingLevel.NOT_CHECKED
