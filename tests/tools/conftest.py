"""Commands in the test's process, the buses of stages, and the recorded OP Sepolia data."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses
from rollup_node.tools.recorded.recording import Recording
from tests.stages.engine.conftest import chain, rollup
from tests.support.processes.cli import Cli
from tests.support.processes.stage_runner import ROLES

__all__ = ["chain", "rollup"]
NewBuses = Callable[..., dict[str, Bus]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.fixture
def new_buses() -> Iterator[NewBuses]:
    """Make the buses of all roles in a folder; they are closed at the end."""
    opened: list[Bus] = []

    def make(folder: Path, roles: Sequence[str] = ROLES) -> dict[str, Bus]:
        buses = in_process_buses(CHANNELS, folder, dict.fromkeys(roles, 1))
        opened.extend(buses.values())
        return buses

    yield make
    for bus in opened:
        bus.close()


@pytest.fixture(scope="session")
def recording_folder(shared_data: Path) -> Path:
    return shared_data / "op_sepolia_replay"


@pytest.fixture(scope="session")
def recording(recording_folder: Path) -> Recording:
    return Recording.load(recording_folder)
