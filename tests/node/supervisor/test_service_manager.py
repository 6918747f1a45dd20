"""What a service manager hears of a node over its life [LIF36]."""

import os
import signal
import socket
from collections.abc import Callable, Iterator

import pytest

from rollup_node.node.supervisor.service_manager import ServiceManager
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.toy_harness import StartNode

Heard = Callable[[str], list[str]]


@pytest.fixture
def heard(leftovers: Leftovers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Heard]:
    """Yield a function that returns what is said, in order, until a datagram has a certain line."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        name = f"rollup-node-{os.getpid()}-{leftovers.folder.name}"
        receiver.bind(f"\0{name}")
        receiver.settimeout(40)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")

        def until(line: str) -> list[str]:
            result: list[str] = []
            while line not in result:
                result += receiver.recv(1000).decode().split("\n")
            return result

        yield until


def test_a_node_is_ready_alive_reloads_and_stops(
    heard: Heard, start: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "2000000")
    node = start(fresh=True)
    assert "WATCHDOG=1" in heard("READY=1"), "also while it starts"
    heard("WATCHDOG=1")
    heard("WATCHDOG=1")
    node.program.send_signal(signal.SIGHUP)
    assert not {"READY=1", "STOPPING=1"} & set(heard("RELOADING=1"))
    assert "STOPPING=1" not in heard("READY=1")
    node.stop()
    assert {"STOPPING=1", "STATUS=stopping"} <= set(heard("STATUS=stopping"))


def test_a_node_that_starts_again_does_not_stop(heard: Heard, start: StartNode) -> None:
    """[UPG26] A service manager would end it, once it has said that it stops."""
    node = start({"again": True}, fresh=True)
    heard("READY=1")
    node.order("left", "restart")
    assert "STOPPING=1" not in heard("RELOADING=1") + heard("READY=1")
    node.stop()


@pytest.mark.parametrize(
    ("environ", "period"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "3000000"}, 1.5),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 1.5),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "nonsense"}, None),
    ],
)
def test_a_watchdog_of_another_process_is_left_alone(
    environ: dict[str, str], period: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr("rollup_node.node.supervisor.service_manager.tell_service_manager", told.append)
    manager = ServiceManager(environ)
    for now in (100.0, 101.0, 101.4, 101.6, 103.0, 103.2):
        manager.tick(now)
    assert len(told) == (0 if period is None else 3)
