"""The first acts of a forked process."""

import errno
import os
import resource
import subprocess
import sys

import pytest

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.process_control import check_descriptor_limit, shared_memory_refusal


def test_all_other_descriptors_are_closed() -> None:
    """In a process of its own, because it would close those of pytest."""
    code = """
import os
from rollup_node.node.system.process_control import close_all_but
kept, closed = os.open("/dev/null", os.O_RDONLY), os.open("/dev/null", os.O_RDONLY)
close_all_but({0, 1, 2, kept})
os.fstat(kept)
print("kept", flush=True)
os.fstat(closed)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "kept\n" and "Bad file descriptor" in done.stderr


PROGRAM = """
import resource
from rollup_node.node.system.process_control import raise_descriptor_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 100))
print(raise_descriptor_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    output = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True).stdout
    assert output.split() == ["100", "100", "100"]


def test_a_limit_that_is_too_low_ends_the_start_with_the_number_needed() -> None:
    with pytest.raises(SetupError, match=r"the node needs 284 open files, and the limit is 283: raise the hard limit"):
        check_descriptor_limit(283, processes=7, connections=164)
    check_descriptor_limit(284, processes=7, connections=164)
    check_descriptor_limit(resource.RLIM_INFINITY, processes=7, connections=164)


@pytest.mark.parametrize(
    "number, advice",
    [(errno.EFBIG, "ulimit -f unlimited"), (errno.EMFILE, "ulimit -n"), (errno.ENOMEM, "how much memory")],
)
def test_shared_memory_that_is_refused_is_a_line_with_the_limit(number: int, advice: str) -> None:
    line = shared_memory_refusal(OSError(number, os.strerror(number)))
    assert line.startswith(f"cannot make the shared memory of the processes: {os.strerror(number)}: ")
    assert advice in line
