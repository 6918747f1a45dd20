"""Several buses in one process."""

from pathlib import Path

import pytest

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.tools.bench.in_process import in_process_buses, running_buses
from tests.ipc.messages import CHANNELS, ECHO, EchoRequest
from tests.support.timing.conditions import until


def test_each_copy_of_a_role_has_a_bus_and_a_slot(tmp_path: Path) -> None:
    buses = in_process_buses(CHANNELS, tmp_path, {"server": 1, "worker": 2}, incarnation=5)
    assert {name: bus.process_id for name, bus in buses.items()} == {
        "server": ProcessId(0, 5),
        "worker": ProcessId(1, 5),
        "worker:1": ProcessId(2, 5),
    }
    liveness = buses["server"].transport.liveness
    assert all(bus.transport.liveness is liveness for bus in buses.values())
    assert [liveness.incarnation(slot) for slot in range(3)] == [5, 5, 5]
    for bus in buses.values():
        bus.close()


def test_the_shared_memory_is_freed_with_the_last_bus(tmp_path: Path) -> None:
    buses = in_process_buses(CHANNELS, tmp_path, {"server": 1, "client": 1})
    liveness = buses["server"].transport.liveness
    buses["server"].close()
    liveness.beat(0)
    buses["client"].close()
    with pytest.raises(ValueError, match="released"):
        liveness.beat(0)


async def test_buses_are_closed_when_the_body_raises(tmp_path: Path) -> None:
    with pytest.raises(LookupError):
        buses = in_process_buses(CHANNELS, tmp_path, {"server": 1, "client": 1})
        async with running_buses(buses):
            requests: list[EchoRequest] = []
            buses["server"].serve(ECHO, lambda client, message: requests.append(message))
            buses["client"].connect(ECHO, lambda message: None).send(EchoRequest(1))
            await until(lambda: requests)
            raise LookupError
    assert list(tmp_path.iterdir()) == []
