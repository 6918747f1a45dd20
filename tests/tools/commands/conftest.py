"""Commands whose ranges are forked."""

from collections.abc import Iterator

import pytest

from rollup_node.tools.devnet.fork_server import ForkServer
from tests.support.processes.forked_commands import forked_ranges


@pytest.fixture
def ranges_are_forked(fork_server: ForkServer) -> Iterator[None]:
    """Has `history run` in this process derive its ranges by forks."""
    with forked_ranges(fork_server):
        yield
