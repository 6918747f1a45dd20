"""Commands in the test's process, and the buses of stages."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses
from tests.support.processes.cli import Cli
from tests.support.processes.stage_runner import ROLES

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
