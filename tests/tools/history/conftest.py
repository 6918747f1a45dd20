"""What tests of the stages of histories share."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.bench.in_process import in_process_buses

NewBuses = Callable[[Path, Sequence[str]], dict[str, Bus]]


@pytest.fixture
def new_buses() -> Iterator[NewBuses]:
    """Make the buses of roles in a folder; all are closed at the end."""
    opened: list[Bus] = []

    def make(folder: Path, roles: Sequence[str]) -> dict[str, Bus]:
        buses = in_process_buses(CHANNELS, folder, dict.fromkeys(roles, 1))
        opened.extend(buses.values())
        return buses

    yield make
    for bus in opened:
        bus.close()
