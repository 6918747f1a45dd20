"""Commands that are forked, and the recorded OP Sepolia data that they read."""

from collections.abc import Callable, Iterator

import pytest

from rollup_node.tools.devnet.fork_server import ForkServer
from rollup_node.tools.recorded.recording import Recording
from tests.support.processes.forked_commands import ForkedCommand, forked_ranges
from tests.support.processes.leftovers import Leftovers
from tests.support.servers.recorded_server import recorded_server

Fork = Callable[..., ForkedCommand]


@pytest.fixture
def ranges_are_forked(fork_server: ForkServer) -> Iterator[None]:
    """Has `history run` in this process derive its ranges by forks."""
    with forked_ranges(fork_server):
        yield


@pytest.fixture
def fork(fork_server: ForkServer, leftovers: Leftovers) -> Fork:
    """Start a command as a forked one."""
    return lambda *words: ForkedCommand(fork_server, leftovers, *words)


@pytest.fixture(scope="module")
def recorded(recording: Recording) -> Iterator[str]:
    """Yield the URL of a server of the recording as it is."""
    with recorded_server(recording) as url:
        yield url
