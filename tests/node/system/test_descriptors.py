"""The limit of file descriptors."""

import subprocess
import sys

PROGRAM = """
import resource
from rollup_node.node.system.descriptors import raise_descriptor_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 100))
print(raise_descriptor_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    output = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True).stdout
    assert output.split() == ["100", "100", "100"]
