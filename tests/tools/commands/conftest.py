"""Commands that are forked, and the recorded OP Sepolia data that they read."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollup_node.tools.devnet.fork_server import ForkServer
from rollup_node.tools.history import range_task
from rollup_node.tools.recorded.recording import Recording
from rollup_node.tools.recorded.server import serving
from tests.support.processes.forked_programs import COMMANDS, ForkedProgram
from tests.support.servers.threads import in_thread


@pytest.fixture
def ranges_are_forked(fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has `history run` in this process derive its ranges by forks, which end with the server."""

    def run(command: list[str]) -> tuple[int, range_task._Log]:
        words = command[command.index("history") :]
        words[words.index("--parent") + 1] = str(fork_server.pid)
        with open(os.devnull, "wb") as out:
            process = ForkedProgram(
                fork_server, COMMANDS["rollup_node"], words, Path.cwd(), os.environ, stdout=out.fileno()
            )
        assert process.stderr is not None
        log = range_task._Log(process.stderr)
        try:
            return process.wait(), log
        finally:
            log.close()

    monkeypatch.setattr(range_task, "_run", run)


@pytest.fixture(scope="module")
def recorded(recording: Recording) -> Iterator[str]:
    """Yield the URL of a server of the recording as it is."""
    with in_thread(serving(recording, 0, blobs_endpoint=True)) as url:
        yield url
